//! Where the kernel enters: relocation, and what it left on the stack.

use core::arch::global_asm;

use crate::start::{Start, Text};

// The stack pointer as the kernel set it is where the number of arguments is; a call wants it to be a multiple of 16.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "lea rsi, [rip + __ehdr_start]",
    "lea rdx, [rip + _DYNAMIC]",
    "and rsp, -16",
    "call {begin}",
    "ud2",
    begin = sym begin,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "adrp x1, __ehdr_start",
    "add x1, x1, :lo12:__ehdr_start",
    "adrp x2, _DYNAMIC",
    "add x2, x2, :lo12:_DYNAMIC",
    "bl {begin}",
    "brk #1",
    begin = sym begin,
);

/// # Safety
/// `stack` is where the kernel put the arguments, `image` where it mapped this program, and `dynamic` its dynamic section.
unsafe extern "C" fn begin(stack: *const usize, image: *mut u8, dynamic: *const [usize; 2]) -> ! {
    // SAFETY: the caller's promises. Before the first line there are no addresses in this program's data.
    unsafe {
        relocate(image, dynamic);
        let count = *stack;
        let arguments = stack.add(1).cast::<Text>();
        let environment = arguments.add(count + 1);
        let mut len = 0;
        while !(*environment.add(len)).pointer().is_null() {
            len += 1;
        }
        crate::launch(&Start {
            arguments: core::slice::from_raw_parts(arguments, count),
            environment: core::slice::from_raw_parts(environment, len),
        })
    }
}

/// Adds where the program was mapped to each of its addresses in memory. There are no other relocations, because there is
/// nothing that it is linked with (System V ABI, chapter 5, "Dynamic Section").
///
/// # Safety
/// As for [`begin`]; called once.
#[inline(always)]
unsafe fn relocate(image: *mut u8, mut dynamic: *const [usize; 2]) {
    const DT_NULL: usize = 0;
    const DT_RELA: usize = 7;
    const DT_RELASZ: usize = 8;
    let (mut table, mut size) = (0, 0);
    // SAFETY: the linker ends the section with an entry of the type 0, and its table is within the image; all that it names
    // is in the writable part.
    unsafe {
        loop {
            let [tag, value] = *dynamic;
            match tag {
                DT_NULL => break,
                DT_RELA => table = value,
                DT_RELASZ => size = value,
                _ => {}
            }
            dynamic = dynamic.add(1);
        }
        let entries = image.add(table).cast::<[usize; 3]>();
        for index in 0..size / size_of::<[usize; 3]>() {
            let [offset, _, addend] = *entries.add(index);
            image.add(offset).cast::<usize>().write(image as usize + addend);
        }
    }
}
