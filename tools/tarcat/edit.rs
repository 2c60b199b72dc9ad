//! What is changed in a sample: its fields and its key.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use tarpipe::sample::Sample;
use tarpipe::sample::member_name;
use tarpipe::value::template::{Template, Values};

/// Fields to keep, each under a name and with what it may be called in the sample.
#[derive(Clone, Debug)]
pub struct Fields(Vec<Field>);

#[derive(Clone, Debug)]
struct Field {
    /// None: it keeps the name it has.
    rename: Option<String>,
    names: Vec<String>,
}

impl FromStr for Fields {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut fields: Vec<Field> = Vec::new();
        for item in text.split_whitespace() {
            let (rename, names) = item.split_once('=').map_or((None, item), |(new, names)| (Some(new), names));
            let names: Vec<String> = names.split(';').map(str::to_owned).collect();
            if rename == Some("") || names.iter().any(String::is_empty) {
                bail!("'{item}' has an empty name (write NEW=OLD or NEW=OLD;OLDER)");
            }
            fields.push(Field { rename: rename.map(str::to_owned), names });
        }
        let made: Vec<&str> = fields.iter().flat_map(Field::makes).collect();
        if let Some(twice) = made.iter().enumerate().find(|(i, name)| made[..*i].contains(name)) {
            bail!("field {} is asked for twice", twice.1);
        }
        if fields.is_empty() {
            bail!("no field is named");
        }
        Ok(Fields(fields))
    }
}

impl Field {
    /// The names it may have afterwards.
    fn makes(&self) -> Vec<&str> {
        match &self.rename {
            Some(new) => vec![new],
            None => self.names.iter().map(String::as_str).collect(),
        }
    }

    /// The first of its names that the sample has.
    fn find(&self, sample: &Sample) -> Option<usize> {
        self.names.iter().find_map(|name| sample.members.iter().position(|member| member.field == *name))
    }
}

impl Fields {
    /// Leaves only these fields, renamed, in the order they had.
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

/// Leaves out the fields in a list separated by spaces.
pub fn drop_fields(sample: &mut Sample, list: Option<&str>) {
    if let Some(list) = list {
        sample.members.retain(|member| !list.split_whitespace().any(|field| field == member.field));
    }
}

/// How new keys are made.
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
    /// The new key of the sample that had `key` and is written as number `index`. A key that
    /// would not come back out of a member's name is an error.
    pub fn key(&self, key: &str, index: u64) -> Result<String> {
        let new = match self {
            Rekey::Template(template) => {
                let base = key.rsplit('/').next().unwrap_or(key);
                let values = [("index", index.to_string()), ("key", key.into()), ("base", base.into())];
                template.fill(&Values::from(values))
            }
            Rekey::Replace(regex, replacement) => regex.replace(key, replacement).into_owned(),
        };
        let unusable = || format!("--rekey turns {key} into {new}, which cannot be a key");
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
        fields.parse::<Fields>().unwrap().pick(&mut sample);
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
            assert!(bad.parse::<Fields>().is_err(), "{bad}");
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
