//! Why an executable cannot be recorded, said to its user: what it is, why that does not work, what to do.

use crate::failure::{Failure, status};
use object::elf;
use std::path::Path;

/// What Rust users do where nothing can be preloaded.
pub const RECORDED: &str = "a Rust program can record itself, with the same profile: `#[global_allocator] static A: homefree::Recorded<MyAlloc> = …;`";

/// It was built for another kind of processor.
pub fn other_architecture(name: &str, is_32_bit: bool, machine: elf::Machine) -> Failure {
    let bits = if is_32_bit { "32-bit " } else { "" };
    let what = match machine {
        elf::EM_386 => "x86",
        elf::EM_X86_64 => "x86-64",
        elf::EM_ARM => "Arm",
        elf::EM_AARCH64 => "Arm64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "s390x",
        _ => "another architecture",
    };
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} is a {bits}program for {what}"),
    )
    .why(format!(
        "this homefree carries its library for 64-bit {} only, and a process loads libraries of its own kind only",
        std::env::consts::ARCH
    ))
    .advice(format!(
        "build the program for {0}, or build homefree for the program's architecture",
        std::env::consts::ARCH
    ))
}

/// Its tables cannot be read.
pub fn damaged(name: &str, error: object::read::Error) -> Failure {
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} is a damaged or unusual ELF file: {error}"),
    )
}

/// There is no loader that would load the recorder.
pub fn is_static(name: &str, go: bool) -> Failure {
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} is statically linked"),
    )
    .why("recording works through LD_PRELOAD, which the dynamic loader reads; a static program starts without a loader")
    .advice(if go {
        "it is a Go program; Go has its own heap, which frees nothing by hand: there is nothing to record".into()
    } else {
        format!("link it dynamically (no -static; for Rust: a *-linux-gnu target without crt-static), or: {RECORDED}")
    })
}

/// Its C library is not the recorder's.
pub fn musl(name: &str, loader: &Path) -> Failure {
    Failure::new(
        status::NOT_RECORDED,
        format!(
            "not recorded: {name} is built for musl ({})",
            loader.display()
        ),
    )
    .why("the library that homefree carries is built for glibc and cannot be loaded beside musl")
    .advice(format!(
        "build the program for glibc (for Rust: a *-linux-gnu target), or: {RECORDED}"
    ))
}

/// The loader that it asks for is missing.
pub fn no_loader(name: &str, loader: &Path) -> Failure {
    Failure::new(
        status::CANNOT_RUN,
        format!("{name}: its loader {} does not exist", loader.display()),
    )
    .advice("install the libc that it was built for")
}

/// A sanitizer's malloc is in it.
pub fn sanitized(name: &str, runtime: &str) -> Failure {
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} is built with a sanitizer ({runtime})"),
    )
    .why("a sanitizer replaces malloc itself, must be the first library, and refuses to start after another")
    .advice("record a build without -fsanitize")
}

/// Its own malloc comes before ours.
pub fn own_allocator(name: &str, symbol: &str) -> Failure {
    Failure::new(
        status::NOT_RECORDED,
        format!("not recorded: {name} defines `{symbol}` itself"),
    )
    .why("a program's own symbols come before those of any library, so its calls would never reach the recorder")
    .advice(format!(
        "build it with the libc's malloc, or with its allocator as a shared library (which is recorded); {RECORDED}"
    ))
}
