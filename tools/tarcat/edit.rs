//! Edits a sample: picks, renames and drops its fields, and changes its key.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use tarpipe::sample::Sample;
use tarpipe::sample::member_name;
use tarpipe::value::list;
use tarpipe::value::template::{Template, Values};

/// The fields to keep, each with its new name and the names it may have in the input.
#[derive(Clone, Debug)]
pub struct KeptFields(Vec<KeptField>);

#[derive(Clone, Debug)]
struct KeptField {
    /// None keeps the name.
    rename: Option<String>,
    names: Vec<String>,
}

impl FromStr for KeptFields {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut fields: Vec<KeptField> = Vec::new();
        for item in list::items(text) {
            let (rename, names) = item.split_once('=').map_or((None, item), |(new, names)| (Some(new), names));
            let names: Vec<String> = names.split(';').map(str::to_owned).collect();
            if rename == Some("") || names.iter().any(String::is_empty) {
                bail!("'{item}' has an empty name (write NEW=OLD or NEW=OLD;OLDER)");
            }
            fields.push(KeptField { rename: rename.map(str::to_owned), names });
        }
        let names: Vec<&str> = fields.iter().flat_map(KeptField::new_names).collect();
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            bail!("field {} appears twice", twice.1);
        }
        if fields.is_empty() {
            bail!("no field is given");
        }
        Ok(KeptFields(fields))
    }
}

impl KeptField {
    /// The names it may have in the output.
    fn new_names(&self) -> Vec<&str> {
        match &self.rename {
            Some(new) => vec![new],
            None => self.names.iter().map(String::as_str).collect(),
        }
    }

    /// The index of the first of its names that the sample has.
    fn find(&self, sample: &Sample) -> Option<usize> {
        self.names.iter().find_map(|name| sample.members.iter().position(|member| member.field == *name))
    }
}

impl KeptFields {
    /// Keeps only these fields, renamed, in their original order.
    pub fn pick(&self, sample: &mut Sample) {
        let mut keep = vec![None; sample.members.len()];
        for field in &self.0 {
            if let Some(at) = field.find(sample) {
                keep[at] = Some(field.rename.clone());
            }
        }
        let mut keep = keep.into_iter();
        sample.members.retain_mut(|member| match keep.next().flatten() {
            None => false,
            Some(rename) => {
                if let Some(new) = rename.filter(|new| *new != member.field) {
                    member.field = new;
                    member.header = None;
                }
                true
            }
        });
    }
}

/// Removes the fields in a list.
pub fn drop_fields(sample: &mut Sample, fields: &[String]) {
    sample.members.retain(|member| !fields.contains(&member.field));
}

/// A rule for new keys.
#[derive(Clone, Debug)]
pub enum Rekey {
    /// `{index:09}`
    Template(Template),
    /// `s/REGEX/REPLACEMENT/`
    Replace(Regex, String),
}

impl FromStr for Rekey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(rest) = text.strip_prefix('s').filter(|rest| rest.starts_with(['/', '|', '#', ','])) else {
            return Ok(Rekey::Template(Template::parse(text, &["index", "key", "base"])?));
        };
        let separator = &rest[..1];
        let parts: Vec<&str> = rest[1..].split(separator).collect();
        let [pattern, replacement, ""] = parts[..] else {
            bail!("not of the form s{separator}REGEX{separator}REPLACEMENT{separator}");
        };
        let regex = Regex::new(pattern).map_err(|err| anyhow!("{}", err.to_string().replace('\n', " ")))?;
        Ok(Rekey::Replace(regex, replacement.to_owned()))
    }
}

impl Rekey {
    /// The new key of the sample `key`, which is written as number `index`. An error if members with the new key
    /// would be read back with another one.
    pub fn key(&self, key: &str, index: u64) -> Result<String> {
        let new = match self {
            Rekey::Template(template) => {
                let base = key.rsplit('/').next().unwrap_or(key);
                let values = [("index", index.to_string()), ("key", key.into()), ("base", base.into())];
                template.fill(&Values::from(values))
            }
            Rekey::Replace(regex, replacement) => regex.replace(key, replacement).into_owned(),
        };
        let unusable = || format!("--rekey turns {key} into the invalid key {new}");
        member_name::check_key(&new).map_err(|unfit| anyhow!("{unfit}")).with_context(unusable)?;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use tarpipe::sample::Member;

    use super::*;

    fn picked(fields: &str, has: &str) -> String {
        let members = has.split(' ').map(|field| Member::new(field, field.into())).collect();
        let mut sample = Sample { key: "k".into(), mtime: 0, source: "s".into(), members };
        fields.parse::<KeptFields>().unwrap().pick(&mut sample);
        let shown = sample.members.iter().map(|m| format!("{}:{}", m.field, String::from_utf8_lossy(&m.data)));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_field_that_exists_is_taken() {
        assert_eq!(picked("jpg cls=class;label", "label jpg json"), "cls:label jpg:jpg");
        assert_eq!(picked("jpg cls=class;label", "label class"), "cls:class");
        assert_eq!(picked("png;jpg", "jpg png"), "png:png");
        assert_eq!(picked("a", "b"), "");
    }

    #[test]
    fn fields_that_collide_or_are_empty_are_refused() {
        for bad in ["", "a=x a=y", "a a", "=x", "a=", "a=x;"] {
            assert!(bad.parse::<KeptFields>().is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_come_from_a_template_or_a_replacement() {
        let key = |pattern: &str| pattern.parse::<Rekey>().unwrap().key("train/cat-7", 3);
        assert_eq!(key("{index:05}").unwrap(), "00003");
        assert_eq!(key("x/{base}").unwrap(), "x/cat-7");
        assert_eq!(key("s/cat-(.*)/dog$1/").unwrap(), "train/dog7");
        assert_eq!(key("s|train/||").unwrap(), "cat-7");
        assert!(key("{key}.x").is_err());
        assert!("s/a/b".parse::<Rekey>().is_err());
        assert!("s/(/b/".parse::<Rekey>().is_err());
    }
}
