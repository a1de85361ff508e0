// posix_spawn and posix_spawnp with actions on descriptors, and system.
#include "check.h"
#include <spawn.h>
extern char **environ;
int main(void) {
    int in[2], out[2];
    char got[200];
    pair(in);
    IS(pipe(out), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    int all[] = {in[0], in[1], out[0], out[1]};
    for (int i = 0; i < 4; i++) posix_spawn_file_actions_addclose(&actions, all[i]);
    pid_t child;
    IS(posix_spawnp(&child, "tr", &actions, NULL, (char *[]){"tr", "a-z", "A-Z", NULL}, environ), 0);
    IS(write(in[1], "spawned", 7), 7);
    close(in[1]);
    close(out[1]);
    read_all(out[0], got, 7);
    CHECK(!memcmp(got, "SPAWNED", 7));
    IS(read(out[0], got, 1), 0);
    passed(child);
    IS(posix_spawn(&child, "/nonexistent", NULL, NULL, (char *[]){"x", NULL}, environ), ENOENT);
    IS(WEXITSTATUS(system("seq 1 1000 | grep -c 7 >/dev/null && exit 6")), 6);
    return 0;
}
