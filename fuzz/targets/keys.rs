//! Any text as a template of names and as a rule for keys and fields of tarcat; after a NUL, the name of a member.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/tarcat/edit.rs"]
mod edit;

use libfuzzer_sys::fuzz_target;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};
use tarpipe::value::list::List;
use tarpipe::value::template::{Template, Values};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |&b| b == 0);
    let Ok(pattern) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let path = parts.next().unwrap_or_default();
    let index = bytes.len() as u64;
    let split = member_name::split(path).ok();
    if let Some((key, field)) = split {
        assert_eq!(format!("{key}.{field}").as_bytes(), path);
        assert_eq!(member_name::check_key(key), Ok(()));
    }
    let (key, field) = split.unwrap_or(("train/cat-7", "jpg"));
    if let Ok(template) = Template::parse(pattern, &["shard", "key"]) {
        let filled = template.fill(&Values::from([("shard", index.to_string()), ("key", key.to_owned())]));
        assert!(filled.len() <= (pattern.len() + 1) * (key.len() + 64));
    }
    if let Ok(rekey) = pattern.parse::<edit::Rekey>()
        && let Ok(new) = rekey.key(key, index)
    {
        assert_eq!(member_name::check_key(&new), Ok(()));
    }
    if let Ok(fields) = pattern.parse::<edit::KeptFields>() {
        let members = [field, "cls", "json"].map(|field| Member::new(field, Vec::new())).into();
        let mut sample = Sample { key: key.to_owned(), mtime: 0, source: "fuzz".into(), members };
        fields.pick(&mut sample);
        edit::drop_fields(&mut sample, &pattern.parse::<List>().unwrap_or_default());
        assert!(sample.members.len() <= 3);
    }
});
