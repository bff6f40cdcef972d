//! One wrapper for each system call that no dependency wraps. All unsafe code of the launcher lives here.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub mod notify;
pub mod own_file;
pub mod rights;

/// Attributes of a mount, as `mount_setattr(2)` takes them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MountAttributes {
    /// `MOUNT_ATTR_*` bits to set.
    pub set: u64,
    /// `MOUNT_ATTR_*` bits to clear.
    pub clear: u64,
    /// `MS_PRIVATE` or 0.
    pub propagation: u64,
    /// Descriptor of a user namespace for id-mapped mounts.
    pub user_namespace: u64,
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Changes the attributes of a detached or attached mount and everything below it.
pub fn mount_setattr(mount: BorrowedFd<'_>, attributes: &MountAttributes, recursive: bool) -> io::Result<()> {
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open for the length of the call, the empty path is a static C string, and the
    // structure outlives the call; its size is passed as the kernel asks.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    })
    .map(drop)
}

/// What `fork` returns.
pub enum Forked {
    /// In the new process.
    Child,
    /// In the old one, with the new one's id.
    Parent(libc::pid_t),
}

/// Makes a copy of this process.
///
/// # Safety
/// The process must have a single thread: then the copy holds no lock that another thread had taken, and may
/// allocate and run any code.
pub unsafe fn fork() -> io::Result<Forked> {
    // SAFETY: single-threaded by this function's contract.
    match check(libc::c_long::from(unsafe { libc::fork() }))? {
        0 => Ok(Forked::Child),
        // A pid fits: the kernel's type is `int`.
        pid => Ok(Forked::Parent(libc::pid_t::try_from(pid).unwrap_or(libc::pid_t::MAX))),
    }
}

/// Ends the process without running destructors or flushing anything.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(code) }
}

/// Executes a program in place of this process. Returns only on failure.
pub fn execve(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers =
        |list: &[CString]| list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both arrays are null-terminated and point to C strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Marks every descriptor from `first` on as closed at the next exec.
pub fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC nothing is closed now, so no descriptor that is in use becomes invalid.
    let result = check(unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    });
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            close_on_exec_each(first)
        }
        other => other.map(drop),
    }
}

/// The same for kernels before 5.11, which know no `CLOSE_RANGE_CLOEXEC`.
fn close_on_exec_each(first: libc::c_uint) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 16);
    for fd in u64::from(first)..limit.min(1 << 20) {
        let Ok(fd) = RawFd::try_from(fd) else { break };
        // SAFETY: fcntl on a number that is no open descriptor fails with EBADF and does nothing.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0
            && io::Error::last_os_error().raw_os_error() != Some(libc::EBADF)
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes over a descriptor that this process was started with.
///
/// # Safety
/// The number must be an open descriptor that nothing else in this process owns.
pub unsafe fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: open and unowned by this function's contract.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Puts a descriptor in the place of 0, 1, 2 or 3, kept open at exec. What was there is closed.
pub fn place(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        // A copy onto itself would leave it closed at exec.
        return Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?);
    }
    // SAFETY: dup2 closes `number`; the launcher owns descriptors 0 to 3 only through this function.
    check(libc::c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), number) })).map(drop)
}

/// Joins a new, anonymous session keyring, so that the caller's is not reachable.
pub fn new_session_keyring() -> io::Result<()> {
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING with a null name takes no pointer.
    check(unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>())
    })
    .map(drop)
}

/// Gives loopback a second address. Resolvers that look only for what this machine can reach (`AI_ADDRCONFIG`) do not
/// count 127.0.0.1.
pub fn add_loopback_address(address: std::net::Ipv4Addr) -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero ifreq is valid: it is plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo:1".to_bytes()) {
        *to = libc::c_char::from_ne_bytes([from.to_owned()]);
    }
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = libc::c_char::from_ne_bytes([from.to_owned()]);
    }
    let sa_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    request.ifr_ifru.ifru_addr = libc::sockaddr { sa_family, sa_data: data };
    // SAFETY: SIOCSIFADDR reads one ifreq, which outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, std::ptr::from_ref(&request))
    }))
    .map(drop)
}

/// Brings the loopback interface of this network namespace up.
pub fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero ifreq is valid: it is plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, std::ptr::from_ref(&request))
    }))
    .map(drop)
}

/// Landlock's ABI on this kernel, or the error that says why there is none.
pub fn landlock_abi() -> io::Result<u8> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the kernel takes no attribute and returns a number.
    let abi = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    })?;
    Ok(u8::try_from(abi).unwrap_or(u8::MAX))
}

/// One classic BPF instruction, as `seccomp(2)` takes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Distance of the jump if true.
    pub jt: u8,
    /// Distance of the jump if false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Installs a system-call filter for this process and all that it starts. `no_new_privs` must be set.
pub fn install_filter(program: &[Instruction]) -> io::Result<()> {
    filter(program, 0).map(drop)
}

/// As [`install_filter`], with a descriptor on which the calls wait that the filter asks about. It is closed at exec.
pub fn install_filter_with_listener(program: &[Instruction]) -> io::Result<OwnedFd> {
    let fd = filter(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: with this flag the call returns a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn filter(program: &[Instruction], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    #[repr(C)]
    struct Program {
        length: libc::c_ushort,
        instructions: *const Instruction,
    }
    let length = libc::c_ushort::try_from(program.len())
        .map_err(|_| io::Error::other("the filter has more than 65,535 instructions"))?;
    let program = Program { length, instructions: program.as_ptr() };
    // SAFETY: the pointer and the length describe one slice that outlives the call; the kernel copies it.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    })
}

/// What a process that ended tells: raw wait status, processor time in microseconds, peak resident size in bytes.
pub struct Ended {
    /// Its id.
    pub pid: libc::pid_t,
    /// Raw status of `wait4(2)`.
    pub status: i32,
    /// User and system time, in microseconds.
    pub cpu_us: u64,
    /// Peak resident size in bytes.
    pub peak_memory: u64,
}

/// Collects one ended child, without waiting. `None` when no child has ended or there is none.
pub fn reap() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid: it is plain data.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the right types.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
    if pid <= 0 {
        return None;
    }
    let microseconds =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    Some(Ended {
        pid,
        status,
        cpu_us: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
        peak_memory: usage.ru_maxrss.unsigned_abs() << 10,
    })
}

/// Whether there is a child, ended or not.
pub fn has_children() -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the kernel takes a null pointer where no information is wanted.
    unsafe { libc::waitid(libc::P_ALL, 0, std::ptr::null_mut(), flags) == 0 }
}

/// Waits until one child has ended, and collects it. `false` when there is none any more.
pub fn wait_for_child() -> bool {
    loop {
        // SAFETY: the kernel takes a null pointer for a status that is not wanted.
        let pid = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL) };
        if pid > 0 {
            return true;
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return false;
        }
    }
}

/// Sends a signal to every process that this one may send it to, but itself. In a Landlock signal scope that is the
/// scope, for process 1 of a process namespace that namespace; without one it would be every process of the user: see
/// `scope` and `init`, its only callers.
pub fn kill_all_in_reach(signal: i32) -> io::Result<()> {
    // SAFETY: no pointer is passed; who is reached is the caller's argument.
    check(libc::c_long::from(unsafe { libc::kill(-1, signal) })).map(drop)
}

/// Whether this process may ask for the limits of another one.
pub fn may_read_limits_of(pid: libc::pid_t) -> bool {
    // SAFETY: an all-zero rlimit is valid: it is plain data.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the result goes to a live local of the right type.
    unsafe { libc::prlimit(pid, libc::RLIMIT_CORE, std::ptr::null(), &raw mut limit) == 0 }
}

/// Bytes of one page of memory.
pub fn page_size() -> u64 {
    // SAFETY: sysconf takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// Bytes in files of memory and shared memory on this machine, whosever they are.
pub fn shared_memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    info.sharedram.saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// Allows this process as many descriptors as it may have.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Fewer only make watching slower.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Makes this process the one to be ended first where the machine runs out of memory. What it starts inherits that,
/// and only a privileged process could take it back.
pub fn offer_for_ending(process: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(process, "oom_score_adj", flags, Mode::empty())?;
    rustix::io::write(&file, b"500")?;
    Ok(())
}

/// Blocks `SIGCHLD` and returns a descriptor that becomes readable when a child ends.
pub fn child_signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero signal set is valid for sigemptyset to fill; pointers are to a live local.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::c_long::from(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())))?;
        let fd = check(libc::c_long::from(libc::signalfd(
            -1,
            &raw const set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        )))?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).unwrap_or(-1)))
    }
}

/// Gives every signal its default effect and unblocks all, as a program expects at its start.
pub fn default_signals() -> io::Result<()> {
    // Handler, flags, restorer and mask as the kernel has them: the C library keeps two signals to itself, and leaves them
    // ignored in what it starts.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the default installs no handler; what cannot be set fails harmlessly.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8_usize)
        };
    }
    // SAFETY: the set is a live local, filled by sigemptyset.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        check(libc::c_long::from(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut())))
            .map(drop)
    }
}

/// Sets the name of this host in its own UTS namespace.
pub fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one string that outlives the call.
    check(libc::c_long::from(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })).map(drop)
}
