// A library with a page of constants between its functions, as libcrypto has one, that are a system call if they are executed.
__asm__(".text\n\t.balign 4096\n\t.globl constants\n\t.type constants, @function\n"
        "constants:\n\t"
        "movl $39, %eax\n\t" // getpid
        "syscall\n\t"
        "ret\n\t"
        ".balign 4096\n");
