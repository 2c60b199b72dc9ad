//! How loaders split the name of a member into key and field. Their rules agree with ours for ordinary names, not for
//! dot-files, names without a dot, and long names.

use std::collections::{BTreeMap, BTreeSet};

/// The rule of webdataset, which Hugging Face, Ray and Energon have copied: the regular expression
/// `^((?:.*/|)[^.]+)[.]([^/]*)$`. A dot-file in a folder becomes a field of the sample `folder/`.
pub fn by_webdataset(path: &str) -> Option<(&str, &str)> {
    let base_at = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[base_at..].find('.')? {
        0 => {
            let folder = path[..base_at].strip_suffix('/')?;
            let nearest = folder.rsplit('/').next().unwrap_or(folder);
            (!nearest.contains('.')).then(|| (&path[..base_at], &path[base_at + 1..]))
        }
        dot => Some((&path[..base_at + dot], &path[base_at + dot + 1..])),
    }
}

/// The rule of WIDS: a name splits at the first dot of its last component that has one, or that is followed by one.
pub fn by_wids(path: &str) -> Option<(&str, &str)> {
    let last_dot = path.rfind('.')?;
    let from = path[..last_dot].rfind('/').map_or(0, |slash| slash + 1);
    let dot = from + path[from..].find('.')?;
    Some((&path[..dot], &path[dot + 1..]))
}

/// The name that WIDS reads from a header: the first 100 bytes of the name, without the prefix of ustar and without
/// extended headers.
pub fn in_header(header: &[u8]) -> Option<String> {
    let block = &header[header.len().checked_sub(512)?..];
    let name = block[..100].split(|&byte| byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(name).into_owned())
}

/// WebDataset's `__[^/]*__($|/)`, at the beginning of a path.
pub fn is_metadata(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    first.len() >= 4 && first.starts_with("__") && first.ends_with("__")
}

/// Whether the fields of a sample look like files whose names have dots: `1.jpg 1.txt 2.jpg 2.txt` are two pairs of files.
/// Numbers with a single field each, as in `1.jpg 2.jpg`, are how samples with several images are usually made.
pub fn are_merged(fields: &BTreeSet<String>) -> bool {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for field in fields {
        match field.split_once('.') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                files.entry(number).or_default().insert(rest);
            }
            _ => return false,
        }
    }
    let mut rests = files.values();
    let first = rests.next();
    files.len() > 1 && first.is_some_and(|first| first.len() > 1 && rests.all(|rest| rest == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_as_the_regular_expressions_of_the_loaders_do() {
        for (path, webdataset, wids) in [
            ("a/b.c.jpg", Some(("a/b", "c.jpg")), Some(("a/b", "c.jpg"))),
            ("v1.2/b.jpg", Some(("v1.2/b", "jpg")), Some(("v1.2/b", "jpg"))),
            ("README", None, None),
            ("x.d/README", None, Some(("x", "d/README"))),
            ("a/x.d/README", None, Some(("a/x", "d/README"))),
            (".hidden.jpg", None, Some(("", "hidden.jpg"))),
            ("a/._b.jpg", Some(("a/", "_b.jpg")), Some(("a/", "_b.jpg"))),
            ("./.b", None, Some(("./", "b"))),
            ("v1.2/.b", None, Some(("v1.2/", "b"))),
            ("b.", Some(("b", "")), Some(("b", ""))),
        ] {
            assert_eq!((by_webdataset(path), by_wids(path)), (webdataset, wids), "{path}");
        }
    }

    #[test]
    fn only_repeated_sets_of_fields_look_merged() {
        let merged = |fields: &str| are_merged(&fields.split(' ').map(str::to_owned).collect());
        assert!(merged("1.jpg 1.txt 2.jpg 2.txt"));
        for fields in
            ["jpg txt", "1.jpg 2.jpg", "1.jpg 1.txt", "1.jpg 1.txt 2.jpg", "left.jpg left.txt right.jpg right.txt"]
        {
            assert!(!merged(fields), "{fields}");
        }
    }
}
