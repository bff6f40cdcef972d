//! The deputy: carries out for a run without namespaces what its filter must not let it do by itself, since neither
//! Landlock nor the filter can tell whose file it is about. The filter asks, the monitor answers here.
//!
//! - Permissions and times of the run's own files are changed; of others the answer is success, and nothing is done.
//! - Named semaphores and shared memory, which the C library keeps below one folder for everybody, are kept in a folder
//!   of the run's own.
//! - Files in memory get the seal against execution (from Linux 6.3 on).
//! - Signals go to processes of the run only, where Landlock has no scope for them.
//! - Everything else that is asked about is left to the kernel, with Landlock: that the script may change its memory
//!   after the look does not matter, as nothing was permitted by it.
//!
//! A name is read once and looked up below the run's own folder only, without leaving it: nothing that the script names
//! can make the monitor wait or reach anything else.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::family;
use super::stage::Failed;
use super::sys::notify::{self, Answer, Call};
use crate::sandbox::linux::plan::{DeputyPlan, SignalGuard};

const STAGE: &str = "deputy";

/// Names of shared memory that a run may have at a time: each takes about a kilobyte of kernel memory.
const MOST_NAMES: usize = 4096;

/// `fchmodat2(2)`: the same number on every architecture. The libc crate lacks it for some.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Where the C library looks for named semaphores and shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Flags of an open of shared memory that are passed on.
const OPEN_FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::WRONLY)
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::NONBLOCK);

/// Answers the calls of one run.
pub struct Deputy {
    listener: OwnedFd,
    own: OwnedFd,
    own_path: PathBuf,
    memory: OwnedFd,
    names: usize,
    signals: SignalGuard,
}

/// What a call is about, before it is decided.
enum Matter {
    Open {
        name: String,
        flags: OFlags,
        mode: u32,
    },
    Link {
        old: String,
        new: String,
    },
    Unlink {
        name: String,
    },
    Mode {
        file: Option<OwnedFd>,
        mode: u32,
    },
    Times {
        file: Option<OwnedFd>,
        times: Option<Timestamps>,
    },
    /// A file in memory without the seal against execution.
    MemoryFile,
    /// A signal to a process (above 0), a group (below), the caller's own group (0) or everybody (-1).
    Signal {
        target: i32,
    },
    /// A signal to a process that a descriptor stands for.
    SignalByDescriptor,
    Other,
}

impl Deputy {
    /// A deputy that answers on this descriptor.
    pub fn new(listener: OwnedFd, plan: &DeputyPlan) -> Result<Self, Failed> {
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
                .map_err(|error| Failed::errno(STAGE, format!("opening {}", path.display()), error))
        };
        let (own, memory) = (open(&plan.own)?, open(&plan.shared_memory)?);
        Ok(Self { listener, own, own_path: plan.own.clone(), memory, names: 0, signals: plan.signals })
    }

    /// Readable when a call waits; hung up when no process of the run is left.
    pub fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Answers one call that waits.
    pub fn serve(&mut self) {
        // It may have been interrupted meanwhile.
        let Ok(call) = notify::receive(&self.listener) else { return };
        let answer = match self.matter(&call) {
            _ if !notify::still_waits(&self.listener, call.id) => return,
            Ok(matter) => self.decide(&call, matter),
            Err(error) => Some(Answer::Fail(error)),
        };
        if let Some(answer) = answer {
            // Where nobody asks any more, nobody misses it.
            let _ = notify::answer(&self.listener, call.id, answer);
        }
    }

    fn matter(&self, call: &Call) -> Result<Matter, Errno> {
        let [a, b, c, d, ..] = call.args;
        match call.number {
            libc::SYS_openat => self.open(call, b, c, d),
            libc::SYS_linkat => Self::link(call, b, d),
            libc::SYS_unlinkat => Self::unlink(call, b),
            libc::SYS_fchmod => Ok(Matter::Mode { file: self.descriptor(call, a)?, mode: low(b) }),
            libc::SYS_fchmodat => Ok(Matter::Mode { file: self.named(call, a, b, 0)?, mode: low(c) }),
            SYS_FCHMODAT2 => Ok(Matter::Mode { file: self.named(call, a, b, d)?, mode: low(c) }),
            libc::SYS_utimensat => {
                let file = if b == 0 { self.descriptor(call, a)? } else { self.named(call, a, b, d)? };
                Ok(Matter::Times { file, times: times(call, c)? })
            }
            libc::SYS_kill
            | libc::SYS_tkill
            | libc::SYS_tgkill
            | libc::SYS_rt_sigqueueinfo
            | libc::SYS_rt_tgsigqueueinfo => Ok(Matter::Signal { target: low(a).cast_signed() }),
            libc::SYS_memfd_create => Ok(Matter::MemoryFile),
            libc::SYS_pidfd_send_signal => Ok(Matter::SignalByDescriptor),
            number => self.matter_of_old(call, number),
        }
    }

    /// Spellings that only x86-64 has.
    #[cfg(target_arch = "x86_64")]
    fn matter_of_old(&self, call: &Call, number: libc::c_long) -> Result<Matter, Errno> {
        let [a, b, c, ..] = call.args;
        match number {
            libc::SYS_open => self.open(call, a, b, c),
            libc::SYS_link => Self::link(call, a, b),
            libc::SYS_unlink => Self::unlink(call, a),
            libc::SYS_chmod => Ok(Matter::Mode { file: self.named(call, HERE, a, 0)?, mode: low(b) }),
            _ => Ok(Matter::Other),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn matter_of_old(&self, _call: &Call, _number: libc::c_long) -> Result<Matter, Errno> {
        Ok(Matter::Other)
    }

    #[expect(clippy::unused_self, reason = "in line with the others")]
    fn open(&self, call: &Call, path: u64, flags: u64, mode: u64) -> Result<Matter, Errno> {
        let flags = OFlags::from_bits_retain(low(flags));
        let named = memory_name(&call.text(path)?);
        Ok(named.map_or(Matter::Other, |name| Matter::Open { name, flags, mode: low(mode) }))
    }

    fn link(call: &Call, old: u64, new: u64) -> Result<Matter, Errno> {
        let both = memory_name(&call.text(old)?).zip(memory_name(&call.text(new)?));
        Ok(both.map_or(Matter::Other, |(old, new)| Matter::Link { old, new }))
    }

    fn unlink(call: &Call, path: u64) -> Result<Matter, Errno> {
        let named = memory_name(&call.text(path)?);
        Ok(named.map_or(Matter::Other, |name| Matter::Unlink { name }))
    }

    /// The run's own file at a path of the caller; `None` for any other.
    fn named(&self, call: &Call, folder: u64, path: u64, flags: u64) -> Result<Option<OwnedFd>, Errno> {
        let path = call.text(path)?;
        if let Some(number) = by_descriptor(&path) {
            return self.descriptor(call, number);
        }
        let base = match low(folder).cast_signed() {
            _ if path.starts_with('/') => PathBuf::new(),
            libc::AT_FDCWD => call.link("cwd")?,
            number => call.link(&format!("fd/{number}"))?,
        };
        if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
            return self.descriptor(call, folder);
        }
        let whole = base.join(&path);
        // The folder itself keeps others out, and stays as it is.
        let below = whole.strip_prefix(&self.own_path).ok().filter(|below| !below.as_os_str().is_empty());
        let Some(below) = below else { return Ok(None) };
        let follow = if flags & AT_SYMLINK_NOFOLLOW == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(
            &self.own,
            below,
            OFlags::PATH | OFlags::CLOEXEC | follow,
            Mode::empty(),
            resolve,
        ) {
            Ok(file) => Ok(Some(file)),
            // A link leads out of the folder.
            Err(Errno::XDEV | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file behind a descriptor of the caller, where it is the run's own.
    fn descriptor(&self, call: &Call, number: u64) -> Result<Option<OwnedFd>, Errno> {
        let file = call.open(&format!("fd/{}", low(number)))?;
        let link = rustix::fs::readlink(format!("/proc/self/fd/{}", raw(&file)), Vec::new())?;
        let path = Path::new(link.to_str().unwrap_or_default());
        Ok((path.starts_with(&self.own_path) && path != self.own_path).then_some(file))
    }

    /// The answer; `None` where the call has had one.
    fn decide(&mut self, call: &Call, matter: Matter) -> Option<Answer> {
        let done = |result: rustix::io::Result<()>| result.map_or_else(Answer::Fail, |()| Answer::Value(0));
        Some(match matter {
            Matter::Open { name, flags, mode } => {
                let closes = flags.contains(OFlags::CLOEXEC);
                let file = self.open_memory(&name, flags, mode);
                match file.and_then(|file| notify::give(&self.listener, call.id, &file, closes)) {
                    Ok(()) => return None,
                    Err(error) => Answer::Fail(error),
                }
            }
            Matter::Link { old, new } => {
                done(rustix::fs::linkat(&self.memory, old, &self.memory, new, AtFlags::empty()))
            }
            Matter::Unlink { name } => done(rustix::fs::unlinkat(&self.memory, name, AtFlags::empty())),
            Matter::Mode { file: Some(file), mode } => {
                let mode = Mode::from_raw_mode(mode & 0o777);
                done(rustix::fs::chmod(format!("/proc/self/fd/{}", raw(&file)), mode))
            }
            Matter::Times { file: Some(file), times } => {
                let times = times.unwrap_or(NOW);
                let path = format!("/proc/self/fd/{}", raw(&file));
                done(rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty()))
            }
            // Success without the deed: an error would break copying and unpacking.
            Matter::Mode { file: None, .. } | Matter::Times { file: None, .. } => Answer::Value(0),
            Matter::MemoryFile => match notify::give_memory_file(&self.listener, call) {
                Ok(()) => return None,
                // A kernel before 6.3 has no such seal.
                Err(Errno::INVAL) => Answer::Continue,
                Err(error) => Answer::Fail(error),
            },
            Matter::Signal { .. } | Matter::SignalByDescriptor if self.signals == SignalGuard::Scope => {
                Answer::Continue
            }
            // The descriptor may be another one a moment later.
            Matter::SignalByDescriptor => Answer::Fail(Errno::PERM),
            Matter::Signal { target } => {
                family::judge(target).map_or_else(Answer::Fail, |()| Answer::Continue)
            }
            Matter::Other => Answer::Continue,
        })
    }

    fn open_memory(&mut self, name: &str, flags: OFlags, mode: u32) -> rustix::io::Result<OwnedFd> {
        if flags.contains(OFlags::CREATE) {
            self.names += 1;
            if self.names > MOST_NAMES {
                self.names = self.count()?;
            }
            if self.names > MOST_NAMES {
                return Err(Errno::NOSPC);
            }
        }
        let flags = (flags & OPEN_FLAGS) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.memory, name, flags, Mode::from_raw_mode(mode & 0o700))
    }

    fn count(&self) -> rustix::io::Result<usize> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.memory, ".", flags, Mode::empty())?;
        Ok(rustix::fs::Dir::new(folder)?.count())
    }
}

/// `AT_FDCWD` as an argument.
#[cfg(target_arch = "x86_64")]
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;
const AT_EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
const AT_SYMLINK_NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;

const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
};

/// What the kernel takes of an argument that is an `int`.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
fn low(argument: u64) -> u32 {
    argument as u32
}

fn raw(file: &OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

/// The name of a piece of shared memory, from its path.
fn memory_name(path: &str) -> Option<String> {
    let name = path.strip_prefix(SHARED_MEMORY)?.strip_prefix('/')?;
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    plain.then(|| name.to_owned())
}

/// The number in a path that names one of the caller's own descriptors.
fn by_descriptor(path: &str) -> Option<u64> {
    let names = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    names.iter().find_map(|name| path.strip_prefix(name))?.parse().ok()
}

/// Access and modification time, from the caller's memory; `None` for now.
fn times(call: &Call, address: u64) -> Result<Option<Timestamps>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let mut bytes = [0; 32];
    call.read(address, &mut bytes)?;
    let number = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let time = |at: usize| Timespec { tv_sec: number(at), tv_nsec: number(at + 8) };
    Ok(Some(Timestamps { last_access: time(0), last_modification: time(16) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_right_below_the_folder_are_shared_memory() {
        assert_eq!(memory_name("/dev/shm/sem.mp-1").as_deref(), Some("sem.mp-1"));
        for other in
            ["/dev/shm", "/dev/shm/", "/dev/shm/..", "/dev/shm/a/b", "/dev/shmx/a", "dev/shm/a", "/tmp/a"]
        {
            assert_eq!(memory_name(other), None, "{other}");
        }
    }

    #[test]
    fn descriptors_are_known_by_their_paths() {
        assert_eq!([by_descriptor("/proc/self/fd/7"), by_descriptor("/dev/fd/0")], [Some(7), Some(0)]);
        assert_eq!([by_descriptor("/proc/1/fd/7"), by_descriptor("/proc/self/fd/x")], [None, None]);
    }
}
