//! Certificates and proxies of the user: what uv gets, and the part without credentials that a script gets. Reads
//! paths to see whether they are there, and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::host::HostEnv;
use super::redact::split_credentials;
use crate::sandbox::spec::Mount;

/// Variables that name a certificate file or folder.
const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
/// Variables that name a proxy or an exception; both spellings are in use.
const PROXIES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// How this machine reaches the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    certificates: BTreeMap<String, String>,
    proxies: BTreeMap<String, String>,
    uv_only: BTreeMap<String, String>,
    mounts: Vec<Mount>,
    notes: Vec<String>,
}

/// Where distributions keep the authorities that the machine trusts, in one file: Debian and its kin, Fedora and its
/// kin, SUSE, Alpine and macOS.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl Connection {
    /// Takes the settings from the user's environment. A certificate path that is not there is left out, and said.
    pub fn read(env: &HostEnv) -> Self {
        let mut connection = Self::default();
        for name in CERTIFICATES {
            connection.certificate(name, env.get(name).unwrap_or_default());
        }
        for name in PROXIES {
            if let Some(value) = env.get(name) {
                connection.proxies.insert(name.to_owned(), value.to_owned());
            }
        }
        // Many clients hand a server only a handful of variables. What the machine trusts is what the user trusts: it
        // holds the public authorities and a company's own.
        let names_none = !connection.certificates.keys().any(|name| name.starts_with("SSL_CERT_"));
        let system = SYSTEM_CERTIFICATES.iter().find(|path| names_none && Path::new(path).is_file());
        if let Some(path) = system {
            connection.uv_only.insert("SSL_CERT_FILE".to_owned(), (*path).to_owned());
        }
        for name in ["UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "UV_HTTP_TIMEOUT", "UV_OFFLINE"] {
            if let Some(value) = env.get(name) {
                connection.uv_only.insert(name.to_owned(), value.to_owned());
            }
        }
        connection
    }

    fn certificate(&mut self, name: &str, value: &str) {
        let mut found: Vec<PathBuf> = Vec::new();
        for path in std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()) {
            let left_out = match path.canonicalize() {
                Err(error) => error.to_string(),
                Ok(_) if !path.is_absolute() => "it is no absolute path".to_owned(),
                Ok(real) if holds_more_than_certificates(&real) => {
                    "that folder holds more than certificates; name one that holds nothing else".to_owned()
                }
                Ok(real) => {
                    found.push(real);
                    continue;
                }
            };
            self.notes.push(format!("{} from {name} is not used: {left_out}", path.display()));
        }
        if found.is_empty() {
            return;
        }
        if let Ok(joined) = std::env::join_paths(&found) {
            self.certificates.insert(name.to_owned(), joined.to_string_lossy().into_owned());
        }
        for path in found {
            let mount = Mount::read_only(path);
            if !self.mounts.contains(&mount) {
                self.mounts.push(mount);
            }
        }
    }

    /// Environment for uv: everything, credentials included.
    pub fn for_uv(&self) -> BTreeMap<String, String> {
        [&self.certificates, &self.proxies, &self.uv_only].into_iter().flatten().map(owned).collect()
    }

    /// Environment for a script whose network is on: certificates, and proxies without user and password.
    pub fn for_scripts(&self) -> BTreeMap<String, String> {
        let proxies = self.proxies.iter().map(|(name, value)| (name.clone(), without_credentials(value)));
        self.certificates.iter().map(owned).chain(proxies).collect()
    }

    /// Addresses of the proxies, as the user writes them.
    pub fn proxies(&self) -> impl Iterator<Item = &str> {
        let exception = |name: &str| name.eq_ignore_ascii_case("no_proxy");
        self.proxies.iter().filter(move |(name, _)| !exception(name)).map(|(_, value)| value.as_str())
    }

    /// What is not used, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Certificate files and folders, read-only.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

/// A proxy may be written without a scheme: `user:password@host:8080`.
fn without_credentials(value: &str) -> String {
    if value.contains("://") {
        return split_credentials(value).0;
    }
    value.rsplit_once('@').map_or(value, |(_, host)| host).to_owned()
}

/// A mistake such as `SSL_CERT_DIR=/` or a home folder must not show the sandbox everything. OpenSSL looks into no folder
/// below the one that is named, so one near the root that has such folders is meant for something else.
fn holds_more_than_certificates(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    path.components().count() <= 3 && entries.flatten().any(|entry| entry.path().is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_get_proxies_without_credentials_and_uv_gets_them_with() {
        let env = HostEnv::from_iter([
            ("HTTPS_PROXY", "http://me:secret@proxy.example:8080"),
            ("all_proxy", "me:secret@proxy.example:1080"),
            ("NO_PROXY", "localhost,.example"),
            ("UV_CACHE_DIR", "/elsewhere"),
        ]);
        let connection = Connection::read(&env);
        assert_eq!(connection.for_uv()["HTTPS_PROXY"], "http://me:secret@proxy.example:8080");
        let script = connection.for_scripts();
        assert_eq!(script["HTTPS_PROXY"], "http://proxy.example:8080");
        assert_eq!(script["all_proxy"], "proxy.example:1080");
        assert_eq!(script.len(), 3);
    }

    #[test]
    fn a_certificate_file_is_mounted_under_its_real_path() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let real = place.path().canonicalize().expect("there").join("ca.pem");
        std::fs::write(&real, b"").expect("written");
        let env = HostEnv::from_iter([
            ("SSL_CERT_FILE", real.to_str().expect("UTF-8")),
            ("REQUESTS_CA_BUNDLE", "/nonexistent.pem"),
            ("SSL_CERT_DIR", "/"),
        ]);
        let connection = Connection::read(&env);
        assert_eq!(connection.mounts(), [Mount::read_only(&real)]);
        assert_eq!(connection.for_scripts().keys().collect::<Vec<_>>(), ["SSL_CERT_FILE"]);
        let said = |words: [&str; 2]| {
            connection.notes.iter().any(|note| words.iter().all(|word| note.contains(word)))
        };
        assert!(said(["/nonexistent.pem", "REQUESTS_CA_BUNDLE"]) && said(["/ from", "SSL_CERT_DIR"]));
    }

    #[test]
    fn several_folders_of_certificates_are_taken_however_short_their_paths_are() {
        let places = [(); 2].map(|()| tempfile::tempdir_in("/tmp").expect("a temporary folder"));
        let [short, home] = places.each_ref().map(|place| place.path().canonicalize().expect("there"));
        assert!(short.components().count() <= 3, "{}", short.display());
        std::fs::create_dir(home.join(".ssh")).expect("made");
        let deep = tempfile::tempdir().expect("a temporary folder");
        let deep = deep.path().canonicalize().expect("there");
        let (one, two) = (deep.join("one"), deep.join("two"));
        for folder in [&one, &two, &short] {
            std::fs::create_dir_all(folder).expect("made");
            std::fs::write(folder.join("5ed36f99.0"), b"").expect("written");
        }
        let value = std::env::join_paths([&one, &home, &two, &short]).expect("joined");
        let env = HostEnv::from_iter([("SSL_CERT_DIR", value.to_str().expect("UTF-8"))]);
        let connection = Connection::read(&env);
        assert_eq!(connection.mounts(), [&one, &two, &short].map(Mount::read_only));
        let joined = std::env::join_paths([&one, &two, &short]).expect("joined");
        assert_eq!(connection.for_uv()["SSL_CERT_DIR"], joined.to_str().expect("UTF-8"));
        assert!(connection.notes()[0].contains("holds more than certificates"), "{connection:?}");
    }

    #[test]
    fn where_the_named_file_is_missing_what_the_machine_trusts_serves() {
        let env = HostEnv::from_iter([("SSL_CERT_FILE", "/nonexistent.pem")]);
        let none = HostEnv::default();
        let (missing, none) = (Connection::read(&env), Connection::read(&none));
        assert_eq!(missing.for_uv(), none.for_uv());
        assert!(missing.notes()[0].contains("SSL_CERT_FILE") && none.notes().is_empty(), "{missing:?}");
    }
}
