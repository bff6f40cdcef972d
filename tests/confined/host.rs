//! A machine that refuses namespaces, and a run of the program under test on it.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An ordinary user without an entry in the list of users.
const USER: u32 = 31_337;

/// What the machine refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Namespaces and mounts, as a container engine's default filter does.
    Namespaces,
    /// The same, and Landlock, as a kernel without it does.
    NamespacesAndLandlock,
    /// A process file system of one's own, as the kernel does where an outer container has covered parts of its.
    FreshProc,
}

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An ordinary user without any capability.
    User,
    /// Root, as a container's default leaves it: it may change its user and the owner of files, and little more.
    ContainerRoot,
}

/// Capabilities that a container's root keeps by default and that matter here: `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `KILL`,
/// `SETGID`, `SETUID`, `SETPCAP`.
const CONTAINER: [u32; 7] = [0, 1, 3, 5, 6, 7, 8];

/// A folder that the caller owns and can reach, removed in the end.
pub struct Place {
    folder: tempfile::TempDir,
    caller: Caller,
    refusal: Refusal,
}

impl Place {
    /// A machine without namespaces. `None` where the test is not run by root, and so cannot become the other.
    pub fn of(caller: Caller) -> Option<Self> {
        Self::with(caller, Refusal::Namespaces)
    }

    /// A machine with this refusal. `None` where only root could play it.
    pub fn with(caller: Caller, refusal: Refusal) -> Option<Self> {
        let root = rustix::process::getuid().is_root();
        if !root && (caller == Caller::ContainerRoot || refusal == Refusal::FreshProc) {
            eprintln!("skipped: only root can play this part");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("confined-").tempdir().expect("a temporary folder");
        let place = Self { folder, caller, refusal };
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("opened");
        place.give(place.path());
        Some(place)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes something the caller's own.
    pub fn give(&self, path: &Path) {
        if rustix::process::getuid().is_root() && self.caller == Caller::User {
            std::os::unix::fs::lchown(path, Some(USER), Some(USER)).expect("root changes owners");
        }
    }

    /// Writes a file that belongs to the caller.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("written");
        self.give(&path);
        path
    }

    /// The program with these arguments, as the caller, where namespaces are refused.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.command_here(args);
        self.prepare(&mut command);
        command
    }

    /// The same on this machine as it is.
    pub fn command_here(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.binary());
        let data = self.path().join("data");
        command.args(args).arg("--data-dir").arg(data).arg("--no-warm-cache");
        command.args(["--python-version", &python()]);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command.env("HOME", self.path()).env("TMPDIR", "/tmp").env("PATH", "/usr/bin:/bin");
        command.current_dir(self.path());
        let (caller, refusal) = (self.caller, self.refusal);
        let become_it = move || match refusal {
            Refusal::Namespaces => become_caller(caller).and_then(|()| refuse_namespaces(None)),
            Refusal::NamespacesAndLandlock => become_caller(caller)
                .and_then(|()| refuse_namespaces(Some(libc::SYS_landlock_create_ruleset))),
            Refusal::FreshProc => cover_proc().and_then(|()| become_caller(caller)),
        };
        // SAFETY: between fork and exec only system calls are made, with data on the stack.
        unsafe { command.pre_exec(become_it) };
    }

    /// Runs a script as the caller without any sandbox.
    pub fn run_plain(&self, script: &str) -> Output {
        let file = self.write("plain.py", script);
        let mut command = Command::new("/usr/bin/python3");
        command.arg(file);
        self.prepare(&mut command);
        command.output().expect("a Python")
    }

    /// A copy that every user can reach: the build's folder may be closed.
    fn binary(&self) -> PathBuf {
        let copy = self.path().join("program");
        if !copy.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"), &copy).expect("copied");
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("executable");
        }
        copy
    }

    /// Runs a script to its end.
    pub fn run(&self, flags: &[&str], script: &str) -> Output {
        let file = self.write("script.py", script);
        let mut args = vec!["run", file.to_str().expect("UTF-8")];
        args.extend(flags);
        self.command(&args).output().expect("the program starts")
    }
}

/// The version of the machine's own Python, so that nothing is downloaded.
fn python() -> String {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("/usr/bin/python3").args(["-I", "-c", code]).output().expect("a Python");
    String::from_utf8(output.stdout).expect("a version").trim().to_owned()
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Covers parts of the process file system, as container engines do, in a mount namespace of its own.
fn cover_proc() -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: every pointer is a static C string or null, as the calls ask.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS).into())?;
        check(libc::mount(none, c"/".as_ptr(), none, libc::MS_PRIVATE | libc::MS_REC, none.cast()).into())?;
        let (tmpfs, fs) = (c"tmpfs".as_ptr(), c"/proc/fs".as_ptr());
        check(libc::mount(tmpfs, fs, tmpfs, libc::MS_RDONLY, none.cast()).into())?;
        let sys = c"/proc/sys".as_ptr();
        check(libc::mount(sys, sys, none, libc::MS_BIND, none.cast()).into())
    }
}

fn become_caller(caller: Caller) -> io::Result<()> {
    // SAFETY: plain system calls without pointers, but for an empty list of groups.
    unsafe {
        if libc::getuid() != 0 {
            return Ok(());
        }
        if caller == Caller::User {
            check(libc::setgroups(0, std::ptr::null()).into())?;
            check(libc::setresgid(USER, USER, USER).into())?;
            return check(libc::setresuid(USER, USER, USER).into());
        }
    }
    keep_capabilities()
}

/// Leaves root with the capabilities of a container and no way to get others.
fn keep_capabilities() -> io::Result<()> {
    let kept: u32 = CONTAINER.iter().map(|capability| 1 << capability).sum();
    for capability in 0..=40 {
        if !CONTAINER.contains(&capability) {
            // SAFETY: PR_CAPBSET_DROP takes no pointer; numbers that the kernel does not know fail harmlessly.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
    }
    let header: [u32; 2] = [0x2008_0522, 0];
    let sets: [u32; 6] = [kept, kept, 0, 0, 0, 0];
    // SAFETY: header and data have the layout of version 3 of the interface and outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const libc::sock_filter,
}

/// What a container engine's default filter refuses of namespaces and mounts, and one call more that does not exist.
fn refuse_namespaces(missing: Option<libc::c_long>) -> io::Result<()> {
    const NAMESPACES: u32 = 0x7e02_0080;
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let insn = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let (load, equal, set, answer) = (0x20, 0x15, 0x45, 0x06);
    let errno = |errno: i32| 0x0005_0000 | errno.unsigned_abs();
    let program = [
        insn(load, 0, 0, 0),
        insn(equal, 7, 0, number(libc::SYS_mount)),
        insn(equal, 6, 0, number(libc::SYS_setns)),
        insn(equal, 5, 0, number(libc::SYS_keyctl)),
        insn(equal, 5, 0, missing.map_or(u32::MAX, number)),
        insn(equal, 4, 0, number(libc::SYS_clone3)),
        insn(equal, 4, 0, number(libc::SYS_unshare)),
        insn(equal, 3, 0, number(libc::SYS_clone)),
        insn(answer, 0, 0, 0x7fff_0000),
        insn(answer, 0, 0, errno(libc::EPERM)),
        insn(answer, 0, 0, errno(libc::ENOSYS)),
        insn(load, 0, 0, 16),
        insn(set, 0, 1, NAMESPACES),
        insn(answer, 0, 0, errno(libc::EPERM)),
        insn(answer, 0, 0, 0x7fff_0000),
    ];
    let filter = Program { length: 15, instructions: program.as_ptr() };
    // SAFETY: pointer and length describe one array that outlives both calls.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        check(libc::prctl(libc::PR_SET_SECCOMP, 2, std::ptr::from_ref(&filter), 0, 0).into())
    }
}
