//! The names of sources and sinks, taken apart: which scheme they have, whether they are paths or objects. Nothing is opened here.

use crate::messages::secret;
use crate::run::shell;

/// What messages call a source, and what samples say of where they are from.
pub fn display(name: &str) -> String {
    if name == "-" { "stdin".into() } else { secret::mask(name).into_owned() }
}

/// The part before `://`, or `file` for `file:PATH`.
pub fn scheme(name: &str) -> Option<&str> {
    if name.starts_with("file:") {
        return Some("file");
    }
    let (scheme, _) = name.split_once("://")?;
    let plain = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (plain && !scheme.is_empty()).then_some(scheme)
}

/// Whether a name stands for an object, or a part of such a name.
pub fn is_object(name: &str) -> bool {
    matches!(scheme(name), Some("s3" | "gs" | "az"))
}

/// Whether a name is that of a file here.
pub fn is_path(name: &str) -> bool {
    name != "-" && !name.starts_with("pipe:") && scheme(name).is_none_or(|scheme| scheme == "file")
}

/// The path behind a plain name or a `file:` name.
pub fn path_of(name: &str) -> &str {
    match name.strip_prefix("file:") {
        Some(rest) => rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest),
        None => name,
    }
}

/// The command that the environment names for this scheme, with the name put in.
pub(crate) fn command_for(variable: &str, name: &str) -> Option<String> {
    let scheme = scheme(name)?.to_ascii_uppercase().replace(['+', '-', '.'], "_");
    let command = std::env::var(format!("{variable}_{scheme}")).ok()?;
    Some(shell::fill(&command, &["{url}", "{}"], name))
}

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
