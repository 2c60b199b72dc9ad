//! Finds outputs that exist already, so that a rerun can skip them (shardrun).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::command_of;
use super::descriptor::Descriptor;
use crate::location;
#[cfg(feature = "stores")]
use crate::store;

/// Returns the names that start with `prefix`, and their sizes. For a template
/// such as `s3://bucket/set/train-{shard:05}.tar` the prefix is the text before
/// the first placeholder. Since sinks never leave partial output under its
/// name, whatever exists is complete.
///
/// Costs one listing of the folder (with its subfolders) or of the store,
/// however many names there are; all of them are held in memory. A folder that
/// does not exist has no outputs. Names that are not UTF-8 are ignored.
///
/// # Errors
///
/// Names that cannot be listed (commands, web servers), unreadable folders, and
/// a store that refuses.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let root = folder.path().display();
/// tarpipe::sink::write_text(&format!("{root}/out-1.txt"), "done")?;
/// let found = tarpipe::sink::existing(&format!("{root}/out-"))?;
/// assert_eq!(found[&format!("{root}/out-1.txt")], 4);
/// # anyhow::Ok(())
/// ```
pub fn existing(prefix: &str) -> Result<BTreeMap<String, u64>> {
    find(prefix, true)
}

/// The same as [`existing`], without the names in subfolders of the folder of
/// `prefix`, which are not read.
pub fn existing_in_folder(prefix: &str) -> Result<BTreeMap<String, u64>> {
    find(prefix, false)
}

fn find(prefix: &str, is_deep: bool) -> Result<BTreeMap<String, u64>> {
    let is_command = command_of(prefix).is_some();
    #[cfg(feature = "stores")]
    if location::is_object(prefix) && !is_command {
        return Ok(store::list(prefix).with_context(|| prefix.to_owned())?.into_iter().collect());
    }
    if is_command || !location::is_path(prefix) {
        bail!("{prefix}: cannot be listed");
    }
    let mut found = BTreeMap::new();
    let before = &prefix[..prefix.len() - location::path_of(prefix).len()];
    walk(location::path_of(prefix), before, is_deep, &mut found).with_context(|| prefix.to_owned())?;
    Ok(found)
}

/// Removes files and objects; those that do not exist are skipped. Objects are
/// removed by one request per thousand where the store can do that.
///
/// # Errors
///
/// A file or an object that cannot be removed; others may be gone by then.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let name = format!("{}/out.txt", folder.path().display());
/// tarpipe::sink::write_text(&name, "done")?;
/// tarpipe::sink::remove(vec![name.clone()])?;
/// assert!(!std::fs::exists(&name)?);
/// # anyhow::Ok(())
/// ```
pub fn remove(names: Vec<String>) -> Result<()> {
    #[cfg(feature = "stores")]
    let names = {
        let (objects, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| location::is_object(name));
        store::remove(&objects)?;
        files
    };
    for name in names {
        match std::fs::remove_file(location::path_of(&name)) {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.with_context(|| name)?,
        }
    }
    Ok(())
}

/// Returns true if [`existing`] can list names with this prefix: paths and
/// objects, but not commands and web servers.
pub fn can_be_listed(prefix: &str) -> bool {
    let is_object = cfg!(feature = "stores") && location::is_object(prefix);
    command_of(prefix).is_none() && (is_object || location::is_path(prefix))
}

/// Returns true if an output of this name would replace something: a file that
/// is not empty, or an object. Costs one listing for an object, and is false if
/// its store cannot be listed. Everything that is not replaced when it is
/// written (stdout, devices, commands, web servers) is never taken.
pub fn is_taken(name: &str) -> bool {
    if command_of(name).is_some() || name == "-" {
        return false;
    }
    #[cfg(feature = "stores")]
    if location::is_object(name) {
        return store::list(name).is_ok_and(|found| found.into_iter().any(|(found, _)| found == name));
    }
    if !location::is_path(name) {
        return false;
    }
    let path = Path::new(location::path_of(name));
    Descriptor::of(path).is_none() && std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// Adds the files whose paths start with `prefix`, including those in matching
/// folders if `is_deep`.
fn walk(prefix: &str, before: &str, is_deep: bool, found: &mut BTreeMap<String, u64>) -> Result<()> {
    let (folder, start) = prefix.split_at(prefix.rfind('/').map_or(0, |at| at + 1));
    let entries = match std::fs::read_dir(if folder.is_empty() { Path::new(".") } else { Path::new(folder) }) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(start) {
            continue;
        }
        let path = format!("{folder}{name}");
        if entry.file_type()?.is_dir() {
            if is_deep {
                walk(&format!("{path}/"), before, is_deep, found)?;
            }
        } else if let Ok(metadata) = std::fs::metadata(&path) {
            found.insert(format!("{before}{path}"), metadata.len());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_anywhere_in_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("out-b")).unwrap();
        for (name, text) in [("out-1.tar", "1"), ("out-2.tar", "22"), ("in.tar", ""), ("out-b/3.tar", "333")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let found = existing(&format!("file:{root}/out-")).unwrap();
        let sizes: Vec<_> = found.iter().map(|(name, size)| (name.rsplit('/').next().unwrap(), *size)).collect();
        assert_eq!(sizes, [("out-1.tar", 1), ("out-2.tar", 2), ("3.tar", 3)]);
        assert!(found.keys().all(|name| name.starts_with(&format!("file:{root}/out-"))));
        assert!(existing(&format!("{root}/none/x-")).unwrap().is_empty());
        assert!(is_taken(&format!("{root}/out-2.tar")));
        assert!(!is_taken(&format!("{root}/in.tar")), "it is empty");
        assert!(
            !is_taken("/dev/null") && !is_taken("/dev/stdout") && !is_taken(&format!("pipe:cat > {root}/out-1.tar"))
        );
        assert!(existing("http://h/x-").is_err());
        assert!(existing("pipe:cat > x-").is_err());
    }
}
