//! Parses the names of sources and sinks: which scheme they have, and whether
//! they are paths or objects. Nothing is opened here, and every function is
//! cheap.
//!
//! A name is one of: `-` (stdin or stdout), `pipe:COMMAND`, `SCHEME://…`,
//! `file:PATH`, or a path. Anything without a known prefix is a path, also if
//! it contains strange characters.

use crate::messages::secret;
use crate::run::shell;

/// What messages call a source: `stdin` for `-`, and secrets masked in
/// everything else. Samples carry it as their origin.
pub fn display(name: &str) -> String {
    if name == "-" { "stdin".into() } else { secret::mask(name).into_owned() }
}

/// The scheme of a name: the part before `://`, or `file` for `file:PATH`. None
/// for `-`, `pipe:` and paths, including paths that happen to contain `://`
/// after a slash. The case is kept.
///
/// ```
/// use tarpipe::location::scheme;
///
/// assert_eq!(scheme("s3://bucket/a.tar"), Some("s3"));
/// assert_eq!(scheme("data/a.tar"), None);
/// ```
pub fn scheme(name: &str) -> Option<&str> {
    if name.starts_with("file:") {
        return Some("file");
    }
    let (scheme, _) = name.split_once("://")?;
    let plain = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (plain && !scheme.is_empty()).then_some(scheme)
}

/// Returns true for names in object stores (`s3://`, `gs://`, `az://`), and for
/// prefixes and patterns of such names.
pub fn is_object(name: &str) -> bool {
    matches!(scheme(name), Some("s3" | "gs" | "az"))
}

/// Returns true if the name is that of a local file, whether it exists or not.
pub fn is_path(name: &str) -> bool {
    name != "-" && !name.starts_with("pipe:") && scheme(name).is_none_or(|scheme| scheme == "file")
}

/// The path of a plain name or a `file:` name (`file:PATH` or `file:///PATH`).
/// Other names are returned as they are.
pub fn path_of(name: &str) -> &str {
    match name.strip_prefix("file:") {
        Some(rest) => rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest),
        None => name,
    }
}

/// The command that the environment provides for this scheme, in
/// `<variable>_<SCHEME>`, with `{}` and `{url}` replaced by the quoted name.
/// `variable` is `GOPEN` or `GCREATE`.
pub(crate) fn command_for(variable: &str, name: &str) -> Option<String> {
    let scheme = scheme(name)?.to_ascii_uppercase().replace(['+', '-', '.'], "_");
    let command = std::env::var(format!("{variable}_{scheme}")).ok()?;
    Some(shell::fill(&command, &["{url}", "{}"], name))
}

/// The message for a scheme that we have no client for.
pub(crate) fn no_client(variable: &str, scheme: &str) -> String {
    let variable = format!("{variable}_{}", scheme.to_ascii_uppercase());
    format!("no client for {scheme}:// (set {variable} to a command, with {{}} for the name)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_told_from_paths() {
        assert_eq!(scheme("http://h/x"), Some("http"));
        assert_eq!(scheme("file:/x"), Some("file"));
        assert_eq!(scheme("a/b://c"), None);
        assert_eq!(scheme("plain.tar"), None);
        assert_eq!(path_of("file:///a/b"), "/a/b");
        assert_eq!(path_of("file:a/b"), "a/b");
        assert_eq!(path_of("a/b"), "a/b");
    }
}
