//! Clients' own configuration: where it lies, and how an entry for this server is put in and taken out.
//!
//! Invariants: what this program did not write stays as it is, comments and order among it; a file that cannot be
//! understood is not touched. Texts are edited by pure functions (`json`, `codex`); only `file` writes.

mod codex;
mod file;
mod json;
pub mod link;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::environment::HostEnv;

pub use file::{FileError, Written, rewrite};

/// The name under which clients know this server.
pub const ENTRY: &str = "python-sandbox";

/// Programs that start MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// Claude Code, for all projects of the user
    Claude,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

/// Systems whose programs keep their settings in different folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Settings below the XDG configuration folder.
    Xdg,
    /// Settings below `Library/Application Support`.
    Mac,
}

impl System {
    /// The one that this program was built for.
    pub fn native() -> Self {
        if cfg!(target_os = "macos") { Self::Mac } else { Self::Xdg }
    }
}

/// How a client starts this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Full path of the program: clients with windows have another PATH than a shell.
    pub command: String,
    /// Flags of the server.
    pub args: Vec<String>,
}

/// What an edit made of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It says already what it should.
    Nothing,
    /// The new text, and what was done.
    Text(String, Change),
}

/// What was done to the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There was none.
    Added,
    /// There was another one.
    Replaced,
    /// It is gone.
    Removed,
}

/// Why a text is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It cannot be read in its own language.
    #[error("it is not valid {language} ({reason})")]
    Syntax {
        /// JSON or TOML.
        language: &'static str,
        /// What the reader of it says, with the place.
        reason: String,
    },
    /// Something else stands where the servers should.
    #[error("`{0}` in it is no table of servers")]
    Shape(&'static str),
}

impl Client {
    /// Its name as people know it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
        }
    }

    /// Its configuration file for all of the user's work; `None` without a home folder.
    pub fn file(self, host: &HostEnv, system: System) -> Option<PathBuf> {
        let home = |path: &str| Some(host.home()?.join(path));
        let settings = |path: &str| match system {
            System::Xdg => Some(host.xdg("XDG_CONFIG_HOME", ".config")?.join(path)),
            System::Mac => Some(host.home()?.join("Library/Application Support").join(path)),
        };
        match self {
            Self::Claude => match host.path("CLAUDE_CONFIG_DIR") {
                Some(folder) => Some(folder.join(".claude.json")),
                None => home(".claude.json"),
            },
            Self::ClaudeDesktop => settings("Claude/claude_desktop_config.json"),
            Self::Cursor => home(".cursor/mcp.json"),
            Self::Vscode => settings("Code/User/mcp.json"),
            Self::Codex => Some(host.path("CODEX_HOME").or_else(|| home(".codex"))?.join("config.toml")),
            Self::Gemini => home(".gemini/settings.json"),
        }
    }

    /// The table in which it looks for servers.
    fn section(self) -> &'static str {
        match self {
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    /// Puts the entry into a configuration; an empty text is an empty configuration.
    pub fn add(self, text: &str, entry: &Entry) -> Result<Edit, EditError> {
        match self {
            Self::Codex => codex::add(text, self.section(), entry),
            _ => json::add(text, self.section(), &self.fields(entry)),
        }
    }

    /// Takes the entry out of a configuration.
    pub fn remove(self, text: &str) -> Result<Edit, EditError> {
        match self {
            Self::Codex => codex::remove(text, self.section()),
            _ => json::remove(text, self.section()),
        }
    }

    /// What goes into a JSON configuration, in the order in which people read it.
    fn fields(self, entry: &Entry) -> Vec<(&'static str, Value)> {
        let kind = matches!(self, Self::Claude | Self::Vscode).then(|| ("type", json!("stdio")));
        kind.into_iter().chain([("command", json!(entry.command)), ("args", json!(entry.args))]).collect()
    }
}

#[cfg(test)]
mod tests;
