//! Where to listen: an address of this machine, or a socket file. It knows no protocol.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket file that only its owner may use.
    Unix(PathBuf),
}

/// Why nobody can listen there.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is none of the known forms.
    #[error(
        "{0:?} is no address to listen on; write a port, an IP address with a port such as 127.0.0.1:8765, or unix:PATH"
    )]
    Form(String),
    /// A server that answers has the socket file.
    #[error("another server listens on {}; end it, or choose another path", .0.display())]
    Taken(PathBuf),
    /// Something that is no socket is at the path.
    #[error("{} exists and is no socket; remove it, or choose another path", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("cannot listen on {0}: {1}")]
    System(Address, #[source] io::Error),
}

impl FromStr for Address {
    type Err = AddressError;

    /// `PORT`, `localhost:PORT`, `IP:PORT` or `unix:PATH`. A port alone is this machine's own, for itself.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::Form(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let port = text.strip_prefix("localhost:").unwrap_or(text);
        if let Ok(port) = port.parse::<u16>() {
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().map(Self::Tcp).map_err(|_| wrong())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A place that is listened on. A socket file goes when this is dropped.
pub struct Listener {
    socket: Socket,
    address: Address,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, whatever it runs over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    /// Listens. Must be called within a runtime.
    pub async fn bind(address: &Address) -> Result<Self, AddressError> {
        let refused = |error| AddressError::System(address.clone(), error);
        match address {
            Address::Tcp(wanted) => {
                let socket = TcpListener::bind(wanted).await.map_err(refused)?;
                let address = Address::Tcp(socket.local_addr().map_err(refused)?);
                Ok(Self { socket: Socket::Tcp(socket), address })
            }
            Address::Unix(path) => {
                make_way(path)?;
                let socket = UnixListener::bind(path).map_err(refused)?;
                let listener = Self { socket: Socket::Unix(socket), address: address.clone() };
                only_for_the_owner(path).map_err(refused)?;
                Ok(listener)
            }
        }
    }

    /// Where it listens, with the port that was really taken.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                // Small answers go out at once; where that cannot be had they are only later.
                let _slower = stream.set_nodelay(true);
                Ok(Box::new(stream))
            }
            Socket::Unix(socket) => Ok(Box::new(socket.accept().await?.0)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket that a dead server left.
fn make_way(path: &Path) -> Result<(), AddressError> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(AddressError::NoSocket(path.to_owned()));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .map_err(|error| AddressError::System(Address::Unix(path.into()), error)),
        _ => Err(AddressError::Taken(path.to_owned())),
    }
}

fn only_for_the_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine_itself() {
        for text in ["8765", "localhost:8765", "127.0.0.1:8765"] {
            assert_eq!(
                text.parse::<Address>().unwrap_or_else(|error| panic!("{error}")).to_string(),
                "http://127.0.0.1:8765"
            );
        }
        assert_eq!(
            "[::1]:80".parse::<Address>().map(|address| address.to_string()).ok().as_deref(),
            Some("http://[::1]:80")
        );
        assert_eq!("unix:/a b".parse::<Address>().ok(), Some(Address::Unix("/a b".into())));
        for wrong in ["", "unix:", "host:80", "127.0.0.1", "70000", "http://127.0.0.1:80", "[::1]"] {
            assert!(matches!(wrong.parse::<Address>(), Err(AddressError::Form(_))), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_socket_of_a_dead_server_is_replaced_and_nothing_else() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "the dead server's socket is left");
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address).await.unwrap_or_else(|error| panic!("{error}"));
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(Listener::bind(&address).await, Err(AddressError::Taken(_))));
        drop(listener);
        assert!(!path.exists(), "the socket stays after its server");
        std::fs::write(&path, "precious").expect("written");
        assert!(matches!(Listener::bind(&address).await, Err(AddressError::NoSocket(_))));
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), Some("precious"));
    }
}
