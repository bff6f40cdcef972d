//! Compiles the system call policy in `seccomp/` into the programs that the library embeds. A policy that has a
//! mistake, or a system call without a decision, stops the build with the line that is at fault.
#[path = "src/seccomp/compiler/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the library uses the rest of the same source")]
mod compiler;

use compiler::{Arch, Insn, PolicyError, Role, Tier};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=seccomp");
    println!("cargo::rerun-if-changed=src/seccomp/compiler");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("seccomp");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("seccomp.rs");
    let mut code = String::new();
    if let Err(error) = programs(&root, &mut code) {
        for problem in error.problems {
            println!("cargo::error=seccomp/{problem}");
        }
        return ExitCode::FAILURE;
    }
    texts(&root, &mut code).expect("the policy folder can be read");
    fs::write(out, code).expect("cargo's output folder can be written");
    ExitCode::SUCCESS
}

fn programs(root: &Path, code: &mut String) -> Result<(), PolicyError> {
    code.push_str("pub static PROGRAMS: &[(&str, &str, &str, &[Insn])] = &[\n");
    for arch in Arch::ALL {
        for role in Role::ALL {
            for tier in Tier::ALL {
                let files = compiler::layers(arch, role, tier);
                let policy = compiler::load(arch, &files, |name| fs::read_to_string(root.join(name)))?;
                let program = compiler::compile(&policy)?;
                line(code, &format!("(\"{arch}\", \"{role}\", \"{tier}\", &["));
                for Insn { code: op, jt, jf, k } in program {
                    line(code, &format!("Insn {{ code: {op}, jt: {jt}, jf: {jf}, k: {k} }},"));
                }
                line(code, "]),");
            }
        }
    }
    line(code, "];");
    Ok(())
}

fn texts(root: &Path, code: &mut String) -> io::Result<()> {
    line(code, "pub static TEXTS: &[(&str, &str)] = &[");
    for folder in ["shared", "shared/confined", "shared/sockets", "x86_64", "aarch64"] {
        let mut files: Vec<_> = fs::read_dir(root.join(folder))?.collect::<Result<_, _>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files.iter().filter(|file| file.path().extension().is_some_and(|end| end == "toml")) {
            let name = file.file_name();
            let name = name.to_str().expect("policy files have plain names");
            let path = file.path();
            let path = path.to_str().expect("the repository has a plain path");
            line(code, &format!("({:?}, include_str!({path:?})),", format!("{folder}/{name}")));
        }
    }
    line(code, "];");
    Ok(())
}

fn line(code: &mut String, text: &str) {
    writeln!(code, "{text}").expect("a String takes everything");
}
