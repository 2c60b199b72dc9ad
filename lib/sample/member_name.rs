//! The name of a member: how it splits into key and field, and when it is no name of ours.

use std::fmt;

/// Why a member with this name is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The base name starts with a dot.
    DotFile,
    /// The base name has no dot, or nothing after it.
    NoField,
    /// The path starts with a component such as `__meta__`, which loaders pass over.
    Metadata,
    /// The path is absolute.
    Absolute,
    /// The path has a component `..`.
    Parent,
    /// The path holds a control character: a newline, a NUL.
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

    /// Whether the member was never meant to be part of a sample. Otherwise it is hostile or
    /// damaged, and leaving it out is a failure.
    pub fn is_harmless(self) -> bool {
        matches!(self, Unfit::DotFile | Unfit::NoField | Unfit::Metadata)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::DotFile => "its base name starts with a dot",
            Unfit::NoField => "its base name has no field after a dot",
            Unfit::Metadata => "it is metadata",
            Unfit::Absolute => "its path is absolute",
            Unfit::Parent => "its path leads out through '..'",
            Unfit::Control => "its path holds a control character",
            Unfit::NotUtf8 => "its path is not UTF-8",
        })
    }
}

/// Splits `a/b.c.jpg` into key `a/b` and field `c.jpg`: WebDataset's rule.
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

/// Whether `key` can be the key of a sample: members named after it must split back into it.
pub fn check_key(key: &str) -> Result<(), Unfit> {
    match split(format!("{key}.x").as_bytes())? {
        (same, "x") if same == key => Ok(()),
        _ => Err(Unfit::NoField),
    }
}

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
    fn what_is_no_member_of_a_sample_says_why() {
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
    fn a_key_must_come_back_out_of_its_members_names() {
        assert_eq!(check_key("a/b"), Ok(()));
        for bad in ["", "a.b", "a/", "/a", "../a", "a\nb", "__a__/b"] {
            assert!(check_key(bad).is_err(), "{bad:?}");
        }
    }
}
