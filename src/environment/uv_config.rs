//! Which of uv's configuration files hold the user's settings, as uv finds them. Files of projects are not among them:
//! where a script comes from, nobody has checked.

use std::path::{Path, PathBuf};

use super::host::HostEnv;

/// Names and texts, those first that go before the others. An error tells that a file which the user named cannot be
/// read.
pub fn read(env: &HostEnv) -> Result<Vec<(String, String)>, String> {
    let text = |path: &Path| std::fs::read_to_string(path);
    if let Some(named) = env.get("UV_CONFIG_FILE") {
        let text = text(Path::new(named))
            .map_err(|error| format!("{named}, named by UV_CONFIG_FILE, cannot be read: {error}"))?;
        return Ok(vec![(named.to_owned(), text)]);
    }
    if env.is_on("UV_NO_CONFIG") {
        return Ok(Vec::new());
    }
    let user = env.xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("uv/uv.toml"));
    let found = user.into_iter().chain(of_system(env));
    Ok(found.filter_map(|path| Some((path.display().to_string(), text(&path).ok()?))).collect())
}

/// The first one that is there counts.
fn of_system(env: &HostEnv) -> Option<PathBuf> {
    let folders = std::env::split_paths(env.get("XDG_CONFIG_DIRS").unwrap_or("/etc/xdg"));
    let folders = folders.take_while(|folder| !folder.as_os_str().is_empty());
    let folders: Vec<PathBuf> = folders.chain(["/etc".into()]).collect();
    folders.into_iter().map(|folder| folder.join("uv/uv.toml")).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_file_stands_alone_and_files_can_be_switched_off() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
        for (folder, text) in [("user/uv", "u"), ("system/uv", "s"), ("named", "n")] {
            std::fs::create_dir_all(at(folder)).expect("made");
            std::fs::write(at(&format!("{folder}/uv.toml")), text).expect("written");
        }
        let (user, system, named, missing) =
            (at("user"), at("system"), at("named/uv.toml"), at("missing.toml"));
        let places = [("XDG_CONFIG_HOME", user.as_str()), ("XDG_CONFIG_DIRS", system.as_str())];
        let texts = |more: &[(&str, &str)]| {
            let env: HostEnv = places.iter().chain(more).copied().collect();
            read(&env).map(|files| files.into_iter().map(|(_, text)| text).collect::<String>())
        };
        assert_eq!(texts(&[]), Ok("us".to_owned()));
        assert_eq!(texts(&[("UV_NO_CONFIG", "1")]), Ok(String::new()));
        assert_eq!(texts(&[("UV_CONFIG_FILE", &named)]), Ok("n".to_owned()));
        assert_eq!(texts(&[("UV_CONFIG_FILE", &named), ("UV_NO_CONFIG", "1")]), Ok("n".to_owned()));
        assert!(texts(&[("UV_CONFIG_FILE", &missing)]).is_err_and(|error| error.contains("missing.toml")));
    }
}
