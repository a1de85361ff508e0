// A library with a page of constants between its functions, as libcrypto has one, that are a system call if they are executed. On the same
// page are a function, and with WRITABLE a variable.
#ifdef WRITABLE
#define SECTION ".section .both,\"awx\",@progbits"
#else
#define SECTION ".text"
#endif

__asm__(SECTION "\n\t.balign 4096\n\t.globl constants\n\t.type constants, @function\n"
        "constants:\n\t"
        "movl $39, %eax\n\t" // getpid
        "syscall\n\t"
        "ret\n\t"
        ".balign 64\n\t.globl count_down\n\t.type count_down, @function\n"
        "count_down:\n\t"
        "1: dec %rdi\n\t"
        "jnz 1b\n\t"
        "ret\n\t"
        ".balign 64\n\t.globl variable\n\t.type variable, @object\n\t.size variable, 8\n"
        "variable: .quad 0\n\t"
        ".balign 4096\n");
