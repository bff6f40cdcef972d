//! Who runs the suite, in which tier: root and an ordinary user where there are both.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::harness::alone::Layer;
use crate::harness::ground::{Ground, User, python};

/// What the machine offers.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Version of the kernel.
    pub kernel: (u32, u32),
    /// Landlock's ABI; 0 without.
    pub landlock: u8,
}

/// A user in a tier.
pub struct Situation {
    /// For reports.
    pub name: String,
    /// Who.
    pub user: User,
    /// Whether the tier is the confined one.
    pub confined: bool,
    /// What there is.
    pub machine: Machine,
    binary: PathBuf,
    home: PathBuf,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let landlock = mcp_python_exec_sandbox::launcher::sys::landlock_abi().unwrap_or(0);
        Self { kernel, landlock }
    }
}

/// All situations that this machine and this user allow, and why others are not among them. `tiers` says of each
/// tier to run in whether it is the confined one.
pub fn all(folder: &Path, tiers: &[bool]) -> Result<(Vec<Situation>, Vec<String>), String> {
    let words = |error: std::io::Error| format!("{}: {error}", folder.display());
    // The folder above has to be passable for every user, and the server's file readable: the build's folder may
    // lie below a home.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(words)?;
    let binary = folder.join("server");
    let built = std::env::var_os("ESCAPE_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox")), PathBuf::from);
    fs::copy(&built, &binary).map_err(|error| format!("{}: {error}", built.display()))?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).map_err(words)?;
    let (users, missing) = users();
    let machine = Machine::look();
    let tiers = |user: User| tiers.iter().map(move |confined| (user.clone(), *confined));
    let situations = users.into_iter().flat_map(tiers).map(|(user, confined)| {
        let home = folder.join(format!("home-{}", user.name));
        fs::create_dir_all(&home).map_err(words)?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).map_err(words)?;
        if let Some((uid, gid)) = user.ids {
            std::os::unix::fs::chown(&home, Some(uid), Some(gid)).map_err(words)?;
        }
        let name = format!("{}, {}", user.name, if confined { "confined" } else { "full" });
        Ok(Situation { name, user, confined, machine, binary: binary.clone(), home })
    });
    Ok((situations.collect::<Result<_, String>>()?, missing))
}

/// This process's user; as root also the one that `TEST_USER` names.
fn users() -> (Vec<User>, Vec<String>) {
    // SAFETY: geteuid has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let own = User { name: if is_root { "root" } else { "user" }.to_owned(), ids: None, is_root };
    if !is_root {
        return (vec![own], vec!["root: the suite was not started as root".to_owned()]);
    }
    let Ok(name) = std::env::var("TEST_USER") else {
        return (vec![own], vec!["an ordinary user: TEST_USER names none".to_owned()]);
    };
    match ids_of(&name) {
        Some(ids) => (vec![own, User { name, ids: Some(ids), is_root: false }], Vec::new()),
        None => {
            (vec![own], vec![format!("an ordinary user: {name:?} (TEST_USER) is no user of this machine")])
        }
    }
}

/// Starts what follows where the kernel refuses namespaces and mounts, as under Docker's default profile.
fn without_namespaces() -> Vec<OsString> {
    let code = include_str!("harness/without_namespaces.py");
    vec![python().into(), "-I".into(), "-c".into(), code.into()]
}

fn ids_of(name: &str) -> Option<(u32, u32)> {
    let table = fs::read_to_string("/etc/passwd").ok()?;
    let fields =
        table.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

impl Situation {
    /// A place for one property.
    pub fn ground(&self) -> Result<Ground, String> {
        let folder =
            tempfile::Builder::new().prefix("escape-").tempdir().map_err(|error| error.to_string())?;
        if let Some((uid, gid)) = self.user.ids {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))
                .map_err(|error| error.to_string())?;
        }
        Ok(Ground {
            user: self.user.clone(),
            folder,
            binary: self.binary.clone(),
            home: self.home.clone(),
            confined: self.confined,
            wrapper: if self.confined { without_namespaces() } else { Vec::new() },
        })
    }

    /// Why one layer alone is not tried here: layers are the same in both tiers. Without namespaces a probe of root's would be root on this machine.
    pub fn cannot_be_alone(&self, layer: Layer) -> Option<String> {
        match layer {
            _ if self.confined => Some(format!("{}: tried in the full tier", layer.name())),
            Layer::Landlock if self.machine.landlock == 0 => {
                Some("Landlock alone: the kernel has none".to_owned())
            }
            Layer::Landlock | Layer::Seccomp if self.user.is_root => {
                Some(format!("{}: only as an ordinary user", layer.name()))
            }
            _ => None,
        }
    }
}
