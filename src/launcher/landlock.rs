//! Landlock: access by path, independent of the mounts; ports; abstract sockets and signals stop at the border.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::stage::{Failed, Restricted, Unprivileged, Worker, absent, enforced_with, partial};
use super::sys;
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::{FileRules, LandlockPlan, PortRule, Scopes};

const STAGE: &str = "landlock";

/// The newest ABI that the rules are written for; on an older kernel what it lacks is left out, and said.
const NEWEST: u8 = 10;

/// First ABI that restricts moving and linking between folders.
const REFER_SINCE: u8 = 2;
/// First ABI that restricts truncating.
const TRUNCATE_SINCE: u8 = 3;
/// First ABI that knows ports.
const PORTS_SINCE: u8 = 4;
/// First ABI with scopes for abstract sockets and signals.
const SCOPES_SINCE: u8 = 6;

impl Worker<Unprivileged> {
    /// Restricts this process and all that it starts to the plan's paths.
    pub fn restrict(self, plan: Option<&LandlockPlan>) -> Result<Worker<Restricted>, Failed> {
        let Some(plan) = plan else { return Ok(self.advance("landlock", absent(STAGE, "not asked for"))) };
        let layer = match level(plan.minimum_abi, sys::landlock_abi())? {
            Level::Abi(abi) => apply(plan, abi)?,
            Level::None(reason) => absent(STAGE, reason),
        };
        Ok(self.advance("landlock", layer))
    }
}

/// How much of Landlock a run gets.
#[derive(Debug, PartialEq, Eq)]
enum Level {
    /// What this ABI knows.
    Abi(u8),
    /// Nothing, and why; only where the plan can do without.
    None(String),
}

/// What comes of the kernel's answer, where at least this ABI is needed (0: none).
fn level(minimum: u8, found: io::Result<u8>) -> Result<Level, Failed> {
    match found {
        Ok(abi) if abi >= minimum.max(1) => Ok(Level::Abi(abi)),
        Ok(abi) => Err(Failed::plain(STAGE, format!("ABI {abi} is there, {minimum} is needed"))),
        Err(error) if minimum == 0 => Ok(Level::None(format!("the kernel has none: {error}"))),
        Err(error) => Err(Failed::io(STAGE, "asking for its ABI", &error)),
    }
}

/// Puts this process and all that it starts into a domain whose signals stay inside it, and which restricts nothing
/// else.
pub fn scope_signals() -> Result<(), Failed> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.scope(Scope::Signal).map_err(said)?;
    let ruleset = ruleset.handle_access(AccessFs::Refer).map_err(said)?;
    let created = may_move(ruleset.create().map_err(said)?)?;
    match created.restrict_self().map_err(said)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(Failed::plain(STAGE, "the kernel did not enforce the signal scope")),
    }
}

fn may_move(created: RulesetCreated) -> Result<RulesetCreated, Failed> {
    allow(created, &["/".into()], AccessFs::Refer.into(), AccessFs::from_file(ABI::V2), Missing::Fails)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn said(error: RulesetError) -> Failed {
    Failed::plain(STAGE, error.to_string())
}

/// What a plan restricts where the kernel has this ABI: exactly what is asked for, so that nothing is left out in
/// silence.
#[derive(Debug, PartialEq, Eq)]
struct Handled {
    files: BitFlags<AccessFs>,
    ports: BitFlags<AccessNet>,
    scopes: BitFlags<Scope>,
}

fn known(abi: u8) -> ABI {
    ABI::from(i32::from(abi.min(NEWEST)))
}

fn handled(plan: &LandlockPlan, abi: u8) -> Handled {
    let abi = known(abi);
    // Moving files between folders is refused by every domain that does not allow it, whatever else it restricts.
    let moves = AccessFs::from_all(abi) & AccessFs::Refer;
    let ports = AccessNet::from_all(abi);
    let scopes = Scope::from_all(abi);
    Handled {
        files: if plan.files.is_some() { AccessFs::from_all(abi) } else { moves },
        ports: match plan.ports {
            PortRule::Untouched => BitFlags::empty(),
            PortRule::ConnectRefused => ports & AccessNet::ConnectTcp,
            PortRule::Refused => ports,
        },
        scopes: match plan.scopes {
            Scopes::Signals => scopes & Scope::Signal,
            Scopes::All => scopes,
        },
    }
}

fn apply(plan: &LandlockPlan, abi: u8) -> Result<LayerStatus, Failed> {
    let Handled { files, ports, scopes } = handled(plan, abi);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if !files.is_empty() {
        ruleset = ruleset.handle_access(files).map_err(said)?;
    }
    if !ports.is_empty() {
        ruleset = ruleset.handle_access(ports).map_err(said)?;
    }
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes).map_err(said)?;
    }
    let created = ruleset.create().map_err(said)?;
    let created = match &plan.files {
        Some(files) => allow_files(created, files, known(abi))?,
        None if files.is_empty() => created,
        None => may_move(created)?,
    };
    match created.restrict_self().map_err(said)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(status(plan, abi)),
        _ => Err(Failed::plain(STAGE, "the kernel did not enforce it")),
    }
}

/// What the kernel's ABI cannot restrict is said.
fn status(plan: &LandlockPlan, abi: u8) -> LayerStatus {
    let files = plan.files.is_some();
    let missing = [
        (files && abi < REFER_SINCE, "moves between folders are refused altogether"),
        (files && abi < TRUNCATE_SINCE, "truncating is left to the system-call filter"),
        (plan.ports == PortRule::Refused && abi < PORTS_SINCE, "ports are left to the system-call filter"),
        (abi < SCOPES_SINCE, "no scopes for abstract sockets and signals"),
    ];
    let missing: Vec<&str> =
        missing.into_iter().filter(|(missing, _)| *missing).map(|(_, what)| what).collect();
    if missing.is_empty() {
        enforced_with(STAGE, format!("ABI {abi}"))
    } else {
        partial(STAGE, format!("ABI {abi}: {}", missing.join("; ")))
    }
}

fn allow_files(mut created: RulesetCreated, files: &FileRules, abi: ABI) -> Result<RulesetCreated, Failed> {
    let of_file = AccessFs::from_file(abi);
    let to_read = AccessFs::ReadFile | AccessFs::ReadDir;
    created = allow(created, &files.list, AccessFs::ReadDir.into(), of_file, Missing::Fails)?;
    created = allow(created, &files.read, to_read, of_file, Missing::IsPassedOver)?;
    created = allow(created, &files.read_execute, AccessFs::from_read(abi), of_file, Missing::Fails)?;
    allow(created, &files.read_write, AccessFs::from_all(abi), of_file, Missing::Fails)
}

/// What a path without anything behind it means. A rule less allows less, never more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The run cannot be what was planned.
    Fails,
    /// The machine has no such file.
    IsPassedOver,
}

fn allow(
    mut ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
    of_file: BitFlags<AccessFs>,
    missing: Missing,
) -> Result<RulesetCreated, Failed> {
    for path in paths {
        let name = || path.display().to_string();
        let fd = match PathFd::new(path) {
            Ok(fd) => fd,
            Err(PathFdError::OpenCall { source, .. })
                if missing == Missing::IsPassedOver && source.kind() == io::ErrorKind::NotFound =>
            {
                continue;
            }
            Err(PathFdError::OpenCall { source, .. }) => return Err(Failed::io(STAGE, name(), &source)),
            Err(error) => return Err(Failed::plain(STAGE, error.to_string())),
        };
        let access = if path.is_dir() { access } else { access & of_file };
        ruleset = ruleset
            .add_rule(PathBeneath::new(fd, access))
            .map_err(|error| Failed::plain(STAGE, format!("{}: {error}", name())))?;
    }
    Ok(ruleset)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::path::Path;

    use super::*;

    /// First ABI that restricts requests to devices.
    const REQUESTS_SINCE: u8 = 5;
    /// First ABI that restricts connections to sockets on a path.
    const PATH_SOCKETS_SINCE: u8 = 9;

    fn plan(files: Option<FileRules>, ports: PortRule, scopes: Scopes) -> LandlockPlan {
        LandlockPlan { files, ports, scopes, minimum_abi: 0 }
    }

    #[test]
    fn what_is_needed_is_there_or_the_run_fails() {
        let none = || Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        let refused = |level: Result<Level, Failed>| level.err().map(|failed| failed.0.detail);
        for abi in 1..=NEWEST {
            assert_eq!(level(0, Ok(abi)).ok(), Some(Level::Abi(abi)));
            assert_eq!(level(abi, Ok(abi)).ok(), Some(Level::Abi(abi)));
            let said = format!("ABI {abi} is there, {} is needed", abi + 1);
            assert_eq!(refused(level(abi + 1, Ok(abi))), Some(said));
            assert!(refused(level(abi, none())).is_some_and(|said| said.starts_with("asking for its ABI")));
        }
        assert!(matches!(level(0, none()), Ok(Level::None(why)) if why.starts_with("the kernel has none")));
    }

    #[test]
    fn each_abi_restricts_what_it_knows() {
        let all = plan(Some(FileRules::default()), PortRule::Refused, Scopes::All);
        let moves = plan(None, PortRule::ConnectRefused, Scopes::Signals);
        for abi in 1..=NEWEST {
            let Handled { files, ports, scopes } = handled(&all, abi);
            assert!(files.contains(AccessFs::WriteFile | AccessFs::Execute), "{abi}");
            assert_eq!(files.contains(AccessFs::Refer), abi >= REFER_SINCE, "{abi}");
            assert_eq!(files.contains(AccessFs::Truncate), abi >= TRUNCATE_SINCE, "{abi}");
            assert_eq!(files.contains(AccessFs::IoctlDev), abi >= REQUESTS_SINCE, "{abi}");
            assert_eq!(
                ports.contains(AccessNet::BindTcp | AccessNet::ConnectTcp),
                abi >= PORTS_SINCE,
                "{abi}"
            );
            let both = Scope::Signal | Scope::AbstractUnixSocket;
            assert_eq!(scopes.contains(both), abi >= SCOPES_SINCE, "{abi}");

            let few = handled(&moves, abi);
            assert_eq!(
                few.files,
                if abi >= REFER_SINCE { AccessFs::Refer.into() } else { BitFlags::empty() }
            );
            assert!(
                !few.ports.contains(AccessNet::BindTcp) && !few.scopes.contains(Scope::AbstractUnixSocket)
            );
        }
        assert_eq!(handled(&all, 200), handled(&all, NEWEST));
    }

    #[test]
    fn what_an_abi_lacks_is_said() {
        let all = plan(Some(FileRules::default()), PortRule::Refused, Scopes::All);
        let words = |abi| status(&all, abi).to_string();
        assert_eq!(
            words(1),
            "landlock (partly: ABI 1: moves between folders are refused altogether; truncating is left to the \
             system-call filter; ports are left to the system-call filter; no scopes for abstract sockets and signals)"
        );
        assert!(!words(2).contains("moves") && words(2).contains("truncating"));
        assert!(!words(3).contains("truncating") && words(3).contains("ports"));
        assert!(!words(4).contains("ports") && words(5).contains("scopes"));
        assert_eq!(words(6), "landlock (ABI 6)");
    }

    /// What a thread can do with nothing but the rules of one ABI.
    fn reach_at(abi: u8) -> Vec<&'static str> {
        let acts = [
            ("moving", abi >= REFER_SINCE),
            ("truncating", abi < TRUNCATE_SINCE),
            ("listening", abi < PORTS_SINCE),
            ("a request to a device", abi < REQUESTS_SINCE),
            ("an abstract socket", abi < SCOPES_SINCE),
            ("a socket on a path", abi < PATH_SOCKETS_SINCE),
            ("a signal", abi < SCOPES_SINCE),
        ];
        acts.into_iter().filter(|(_, can)| *can).map(|(act, _)| act).collect()
    }

    /// What a thread can do that nothing restricts.
    const EVERYTHING: [&str; 8] = [
        "reading elsewhere",
        "moving",
        "truncating",
        "listening",
        "a request to a device",
        "an abstract socket",
        "a socket on a path",
        "a signal",
    ];

    /// Two folders of the run, and what lies outside of them.
    struct Ground {
        folder: tempfile::TempDir,
        abstract_name: String,
        child: std::process::Child,
        _listeners: (UnixListener, UnixListener),
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            for (name, text) in
                [("one", None), ("other", None), ("one/file", Some("")), ("read", Some("text"))]
            {
                let path = folder.path().join(name);
                match text {
                    None => std::fs::create_dir(path).expect("made"),
                    Some(text) => std::fs::write(path, text).expect("written"),
                }
            }
            std::fs::write(folder.path().join("elsewhere"), "text").expect("written");
            let abstract_name = format!("landlock-{}", folder.path().display());
            let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
            let listeners = (
                UnixListener::bind_addr(&address).expect("bound"),
                UnixListener::bind(folder.path().join("socket")).expect("bound"),
            );
            let child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
            Self { folder, abstract_name, child, _listeners: listeners }
        }

        fn rules(&self) -> FileRules {
            let at = |name: &str| self.folder.path().join(name);
            FileRules {
                read: vec![at("read"), "/dev/urandom".into()],
                read_write: vec![at("one"), at("other")],
                ..FileRules::default()
            }
        }

        fn reach(&self) -> Vec<&'static str> {
            let at = |name: &str| self.folder.path().join(name);
            let moved = std::fs::rename(at("one/file"), at("other/file"));
            if moved.is_ok() {
                std::fs::rename(at("other/file"), at("one/file")).expect("moved back");
            }
            let address = SocketAddr::from_abstract_name(&self.abstract_name).expect("a name");
            let pid = rustix::process::Pid::from_child(&self.child);
            let acts = [
                std::fs::read(at("elsewhere")).is_ok(),
                moved.is_ok(),
                truncated(&at("read")),
                TcpListener::bind("127.0.0.1:0").is_ok(),
                asks_a_device(),
                UnixStream::connect_addr(&address).is_ok(),
                UnixStream::connect(at("socket")).is_ok(),
                rustix::process::test_kill_process(pid).is_ok(),
            ];
            EVERYTHING.into_iter().zip(acts).filter(|(_, can)| *can).map(|(act, _)| act).collect()
        }
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn truncated(path: &Path) -> bool {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero in it");
        // SAFETY: the path is a C string that outlives the call.
        unsafe { libc::truncate(path.as_ptr(), 0) == 0 }
    }

    fn asks_a_device() -> bool {
        const RNDGETENTCNT: libc::Ioctl = 0x8004_5200_u32 as libc::Ioctl;
        let device = std::fs::File::open("/dev/urandom").expect("every rule allows reading it");
        let mut bits: libc::c_int = 0;
        // SAFETY: the request writes one integer through the pointer, which is valid for it.
        unsafe { libc::ioctl(device.as_raw_fd(), RNDGETENTCNT, &raw mut bits) == 0 }
    }

    #[test]
    fn the_kernel_refuses_at_each_abi_what_that_abi_knows() {
        let Ok(newest) = sys::landlock_abi() else {
            eprintln!("SKIPPED Landlock at each ABI: the kernel has no Landlock");
            return;
        };
        let ground = Ground::new();
        assert_eq!(ground.reach(), EVERYTHING, "nothing is restricted yet");
        for abi in 1..=newest.min(NEWEST) {
            let plan = plan(Some(ground.rules()), PortRule::Refused, Scopes::All);
            // A domain holds for the thread that enters it, and for nobody else.
            let reach = std::thread::scope(|scope| {
                let restricted = scope.spawn(|| apply(&plan, abi).map(|_| ground.reach()));
                restricted
                    .join()
                    .expect("it ends")
                    .unwrap_or_else(|failed| panic!("{abi}: {}", failed.0.detail))
            });
            assert_eq!(reach, reach_at(abi), "ABI {abi}");
        }
        assert_eq!(ground.reach(), EVERYTHING, "nobody else is restricted");
    }
}
