//! Names of members: how they split into key and field, and which names cannot
//! be part of a sample.
//!
//! The rule is WebDataset's, so that every loader groups members as we do.
//! Names that could harm whoever extracts the archive (absolute paths, `..`,
//! control characters) are refused.

use std::fmt;

/// Why a member cannot be part of a sample. `Display` gives the reason as a
/// sentence about the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The base name begins with a dot.
    DotFile,
    /// The base name has no dot, or nothing after it.
    NoField,
    /// The path begins with a component such as `__meta__`, which loaders
    /// ignore.
    Metadata,
    /// The path is absolute.
    Absolute,
    /// The path contains a component `..`.
    Parent,
    /// The path contains a control character, such as a newline or NUL.
    Control,
    /// The path is not UTF-8.
    NotUtf8,
}

impl Unfit {
    /// The stable reason code.
    pub fn code(self) -> &'static str {
        match self {
            Unfit::DotFile => "dot_file",
            Unfit::NoField => "no_field",
            Unfit::Metadata => "metadata",
            Unfit::Absolute => "name_absolute",
            Unfit::Parent => "name_parent",
            Unfit::Control => "name_control",
            Unfit::NotUtf8 => "name_not_utf8",
        }
    }

    /// Returns true if the member was never meant to be part of a sample, so
    /// that it is dropped. Otherwise it is hostile or damaged, and counts as
    /// failed.
    pub fn is_harmless(self) -> bool {
        matches!(self, Unfit::DotFile | Unfit::NoField | Unfit::Metadata)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::DotFile => "its base name begins with a dot",
            Unfit::NoField => "its base name has no field after a dot",
            Unfit::Metadata => "it is metadata",
            Unfit::Absolute => "its path is absolute",
            Unfit::Parent => "its path contains '..'",
            Unfit::Control => "its path contains a control character",
            Unfit::NotUtf8 => "its path is not UTF-8",
        })
    }
}

/// Splits the name of a member into key and field, at the first dot of the base
/// name. Borrows from `path`.
///
/// # Errors
///
/// The reason why a member of this name cannot be part of a sample.
///
/// ```
/// use tarpipe::sample::member_name::{Unfit, split};
///
/// assert_eq!(split(b"train/cat.1.jpg"), Ok(("train/cat", "1.jpg")));
/// assert_eq!(split(b"v1.2/cat.jpg"), Ok(("v1.2/cat", "jpg")));
/// assert_eq!(split(b"train/README"), Err(Unfit::NoField));
/// assert_eq!(split(b"../cat.jpg"), Err(Unfit::Parent));
/// ```
pub fn split(path: &[u8]) -> Result<(&str, &str), Unfit> {
    let path = std::str::from_utf8(path).map_err(|_| Unfit::NotUtf8)?;
    check(path)?;
    let base_at = path.rfind('/').map_or(0, |slash| slash + 1);
    let base = &path[base_at..];
    match base.find('.') {
        Some(0) => Err(Unfit::DotFile),
        Some(dot) if dot + 1 < base.len() => Ok((&path[..base_at + dot], &base[dot + 1..])),
        _ => Err(Unfit::NoField),
    }
}

/// Checks that `key` can be the key of a sample: a member named `KEY.field`
/// must split back into it. Keys that are empty or have a dot in their base
/// name are refused, besides those that [`split`] refuses.
pub fn check_key(key: &str) -> Result<(), Unfit> {
    match split(format!("{key}.x").as_bytes())? {
        (same, "x") if same == key => Ok(()),
        _ => Err(Unfit::NoField),
    }
}

/// Refuses names that are unsafe or reserved, whatever their key and field.
fn check(path: &str) -> Result<(), Unfit> {
    if path.bytes().any(|b| b.is_ascii_control()) {
        Err(Unfit::Control)
    } else if path.starts_with('/') {
        Err(Unfit::Absolute)
    } else if path.split('/').any(|component| component == "..") {
        Err(Unfit::Parent)
    } else if is_metadata(path.split('/').next().unwrap_or(path)) {
        Err(Unfit::Metadata)
    } else {
        Ok(())
    }
}

/// WebDataset's rule for names such as `__meta__`.
fn is_metadata(component: &str) -> bool {
    component.len() >= 4 && component.starts_with("__") && component.ends_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_the_first_dot_of_the_base_name() {
        assert_eq!(split(b"a/b.c.jpg"), Ok(("a/b", "c.jpg")));
        assert_eq!(split(b"a.b/c.jpg"), Ok(("a.b/c", "jpg")));
        assert_eq!(split(b"./x.cls"), Ok(("./x", "cls")));
        assert_eq!(split("ä/ö.txt".as_bytes()), Ok(("ä/ö", "txt")));
    }

    #[test]
    fn unfit_names_give_a_reason() {
        let cases: [(&[u8], Unfit); 11] = [
            (b"a/.hidden.jpg", Unfit::DotFile),
            (b"a/README", Unfit::NoField),
            (b"a/b.", Unfit::NoField),
            (b"", Unfit::NoField),
            (b"__meta__/a.jpg", Unfit::Metadata),
            (b"__class__", Unfit::Metadata),
            (b"/etc/passwd.txt", Unfit::Absolute),
            (b"a/../b.jpg", Unfit::Parent),
            (b"a\nb.jpg", Unfit::Control),
            (b"a\0b.jpg", Unfit::Control),
            (b"a\xff.jpg", Unfit::NotUtf8),
        ];
        for (path, why) in cases {
            assert_eq!(split(path), Err(why), "{path:?}");
        }
    }

    #[test]
    fn a_key_must_survive_splitting() {
        assert_eq!(check_key("a/b"), Ok(()));
        for bad in ["", "a.b", "a/", "/a", "../a", "a\nb", "__a__/b"] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
    }
}
