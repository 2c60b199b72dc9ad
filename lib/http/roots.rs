//! The certificate authorities that are trusted.

use std::sync::OnceLock;

/// The trusted certificates.
pub struct Roots {
    /// Each in DER.
    pub certificates: Vec<Vec<u8>>,
    /// Whether they are Mozilla's, because this machine has none, as in a minimal container.
    pub are_built_in: bool,
}

/// The certificates of SSL_CERT_FILE and SSL_CERT_DIR; without these variables the system's, or Mozilla's if the system has
/// none. If the variables name no valid certificate, none is trusted. Read once.
pub fn roots() -> &'static Roots {
    static ROOTS: OnceLock<Roots> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs().certs;
        let is_set = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some());
        let are_built_in = found.is_empty() && !is_set;
        let chosen = if are_built_in { webpki_root_certs::TLS_SERVER_ROOT_CERTS } else { &found };
        Roots { certificates: chosen.iter().map(|der| der.to_vec()).collect(), are_built_in }
    })
}
