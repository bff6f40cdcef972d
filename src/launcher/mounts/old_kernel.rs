//! Attributes of mounts on kernels before 5.12, which have no `mount_setattr`: each mount is remounted by name once
//! the root is the run's own and nobody else can see it.

use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use super::{STAGE, source_of};
use crate::launcher::stage::Failed;
use crate::sandbox::linux::plan::RootStep;
use crate::sandbox::spec::Access;

/// Remounts the root and everything that came from the host with the attributes of the plan.
pub fn set_attributes(steps: &[RootStep]) -> Result<(), Failed> {
    let list = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Failed::io(STAGE, "reading the list of mounts", &error))?;
    for line in list.lines() {
        let Some((place, options)) = parse(line) else { continue };
        let Some(wanted) = wanted(steps, &place) else { continue };
        // A user namespace may not clear what the host's mount had: keep it.
        let flags = wanted | present(options) | MountFlags::BIND;
        rustix::mount::mount_remount(&place, flags, c"")
            .map_err(|error| Failed::errno(STAGE, format!("remounting {}", place.display()), error))?;
    }
    Ok(())
}

/// Mount point and options of one line of mountinfo.
fn parse(line: &str) -> Option<(PathBuf, &str)> {
    let mut fields = line.split(' ').skip(4);
    let place = fields.next()?;
    Some((PathBuf::from(unescape(place)), fields.next()?))
}

/// Blanks, tabs, line ends and backslashes stand as three octal digits.
fn unescape(text: &str) -> String {
    let coded = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    coded.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// What a mount at this place is to have; `None` for what the launcher mounted as it should be.
fn wanted(steps: &[RootStep], place: &Path) -> Option<MountFlags> {
    // Beside the root: what covers entries of /proc.
    if place == Path::new("/") || place.parent() == Some(Path::new("/proc")) {
        return Some(MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV);
    }
    let bind = steps.iter().rev().find_map(|step| match step {
        RootStep::Bind { target, access, .. } if place.starts_with(target) => Some(*access),
        _ => None,
    });
    match bind {
        Some(Access::ReadOnly) => Some(MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV),
        Some(Access::ReadWrite) => Some(MountFlags::NOSUID | MountFlags::NODEV),
        None => is_device(steps, place).then_some(MountFlags::NOSUID),
    }
}

fn is_device(steps: &[RootStep], place: &Path) -> bool {
    steps.iter().any(|step| {
        matches!(step, RootStep::Device { .. }) && source_of(step).is_some_and(|source| source.path == place)
    })
}

fn present(options: &str) -> MountFlags {
    options.split(',').fold(MountFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MountFlags::RDONLY,
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read() {
        let line = r"36 35 98:0 /mnt1 /a\040b ro,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(parse(line), Some((PathBuf::from("/a b"), "ro,noatime")));
        assert_eq!(present("ro,noatime"), MountFlags::RDONLY | MountFlags::NOATIME);
    }

    #[test]
    fn mounts_below_a_bind_get_its_attributes() {
        let bind =
            |access| RootStep::Bind { source: "/usr".into(), target: "/usr".into(), access, directory: true };
        let read_only = [bind(Access::ReadOnly)];
        let flags = wanted(&read_only, Path::new("/usr/local")).expect("a mount of the host");
        assert!(flags.contains(MountFlags::RDONLY));
        let writable = [bind(Access::ReadWrite)];
        assert!(
            !wanted(&writable, Path::new("/usr")).expect("a mount of the host").contains(MountFlags::RDONLY)
        );
        assert_eq!(wanted(&read_only, Path::new("/work")), None);
        assert_eq!(wanted(&read_only, Path::new("/proc/sys")), wanted(&read_only, Path::new("/")));
    }
}
