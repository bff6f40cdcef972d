//! The system calls of each architecture, as `seccomp/syscalls` lists them.
use super::arch::Arch;
use std::sync::OnceLock;

/// A system call of one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// Its number on that architecture.
    pub number: u32,
    /// Its name in the kernel's headers.
    pub name: &'static str,
}

static X86_64: &str = include_str!("../../../seccomp/syscalls/x86_64.tbl");
static AARCH64: &str = include_str!("../../../seccomp/syscalls/aarch64.tbl");

/// Every system call that the newest kernel headers name for the architecture, by rising number.
///
/// # Panics
/// When the table in the repository is damaged. The build script reads it too, so such a program is never built.
#[must_use]
pub fn syscalls(arch: Arch) -> &'static [Syscall] {
    static TABLES: OnceLock<[Vec<Syscall>; 2]> = OnceLock::new();
    let [x86_64, aarch64] = TABLES.get_or_init(|| [parse(X86_64), parse(AARCH64)]);
    match arch {
        Arch::X86_64 => x86_64,
        Arch::Aarch64 => aarch64,
    }
}

fn parse(table: &'static str) -> Vec<Syscall> {
    let rows: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (number, name) = line.split_once(' ').expect("a row is a number, a space and a name");
            Syscall { number: number.parse().expect("a row starts with a decimal number"), name }
        })
        .collect();
    assert!(rows.windows(2).all(|pair| pair[0].number < pair[1].number), "rows are sorted, each number once");
    rows
}
