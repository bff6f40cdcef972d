//! Every key of `[tool.uv]` that is not taken, with the reason.

/// The keys that are taken, for suggestions.
pub const TAKEN: [&str; 20] = [
    "index",
    "index-url",
    "extra-index-url",
    "find-links",
    "sources",
    "index-strategy",
    "exclude-newer",
    "exclude-newer-package",
    "prerelease",
    "prerelease-package",
    "resolution",
    "fork-strategy",
    "constraint-dependencies",
    "override-dependencies",
    "build-constraint-dependencies",
    "exclude-dependencies",
    "no-build",
    "no-build-package",
    "no-binary",
    "no-binary-package",
];

const TRUST: &str = "whom the installer trusts is the user's decision, not a script's";
const CREDENTIALS: &str = "it would use the user's credentials";
const NETWORK: &str = "how the network is reached is the user's decision, not a script's";
const INTERPRETER: &str =
    "where interpreters come from is the user's decision; say `requires-python` for the version you need";
const BUILD: &str = "it changes how packages are built from source, which happens in a sandbox of its own";
const HOST: &str = "it depends on the machine that the server runs on";
const PROJECT: &str = "it belongs to a project in a folder, and a script has none";
const SETUP: &str = "how the installer works is set by the server";

const REFUSED: [(&str, &str); 42] = [
    ("keyring-provider", CREDENTIALS),
    ("allow-insecure-host", TRUST),
    ("trusted-host", TRUST),
    ("native-tls", TRUST),
    ("system-certs", TRUST),
    ("no-verify-hashes", TRUST),
    ("trusted-publishing", CREDENTIALS),
    ("publish-url", CREDENTIALS),
    ("check-url", CREDENTIALS),
    ("audit", NETWORK),
    ("http-proxy", NETWORK),
    ("https-proxy", NETWORK),
    ("no-proxy", NETWORK),
    ("offline", NETWORK),
    ("no-index", "it would shut off the indexes that the user configured"),
    ("python-install-mirror", INTERPRETER),
    ("pypy-install-mirror", INTERPRETER),
    ("graalpy-install-mirror", INTERPRETER),
    ("pyodide-install-mirror", INTERPRETER),
    ("python-downloads-json-url", INTERPRETER),
    ("python-downloads", INTERPRETER),
    ("python-preference", INTERPRETER),
    ("config-settings", BUILD),
    ("config-settings-package", BUILD),
    ("no-build-isolation", BUILD),
    ("no-build-isolation-package", BUILD),
    ("extra-build-dependencies", BUILD),
    ("extra-build-variables", BUILD),
    ("require-build-hashes", BUILD),
    ("build-backend", BUILD),
    (
        "dependency-metadata",
        "it would replace what packages say about themselves; use `override-dependencies`",
    ),
    ("torch-backend", HOST),
    ("cache-dir", HOST),
    ("cache-keys", HOST),
    ("no-cache", SETUP),
    ("preview", SETUP),
    ("preview-features", SETUP),
    ("required-version", SETUP),
    ("workspace", PROJECT),
    ("conflicts", PROJECT),
    ("no-sources", "leave out `[tool.uv.sources]` instead"),
    ("no-sources-package", "leave the package out of `[tool.uv.sources]` instead"),
];

/// Keys that change nothing in a fresh environment that is built once.
const NO_EFFECT: [&str; 20] = [
    "add-bounds",
    "compile-bytecode",
    "concurrent-builds",
    "concurrent-downloads",
    "concurrent-installs",
    "default-groups",
    "dependency-groups",
    "dev-dependencies",
    "environments",
    "required-environments",
    "minimum-libc-version",
    "link-mode",
    "managed",
    "package",
    "pip",
    "reinstall",
    "reinstall-package",
    "upgrade",
    "upgrade-package",
    "no-progress",
];

/// Why a key is refused; `None` where it is not known to be harmful.
pub fn refusal(key: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == key).map(|(_, reason)| *reason)
}

/// Whether a key is known and without effect.
pub fn has_no_effect(key: &str) -> bool {
    NO_EFFECT.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_answer() {
        for key in TAKEN {
            assert!(refusal(key).is_none() && !has_no_effect(key), "{key}");
        }
        for (key, _) in REFUSED {
            assert!(!has_no_effect(key), "{key}");
        }
    }
}
