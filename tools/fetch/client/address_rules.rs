//! Which hosts and addresses may be connected to. Tables come from strangers: their URLs must not reach this machine, its
//! network or the metadata service of its cloud.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail};
use ipnet::IpNet;

/// The hosts, networks and kinds of addresses that a run refuses.
#[derive(Debug, Default)]
pub struct AddressRules {
    allow_private: bool,
    hosts: HashSet<String>,
    networks: Vec<IpNet>,
}

impl AddressRules {
    /// Refuses internal addresses, unless `allow_private`.
    pub fn new(allow_private: bool) -> Self {
        AddressRules { allow_private, ..AddressRules::default() }
    }

    /// Adds a block list: one host (with its subdomains), address or network (CIDR) per line; `#` starts a comment.
    pub fn block(&mut self, list: &str) -> Result<()> {
        for (number, line) in list.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim().to_ascii_lowercase();
            if entry.is_empty() {
                continue;
            }
            match parse_network(&entry).with_context(|| format!("line {}", number + 1))? {
                Some(network) => self.networks.push(network),
                None => _ = self.hosts.insert(entry.trim_start_matches("*.").trim_matches('.').to_owned()),
            }
        }
        Ok(())
    }

    /// Why this host must not be contacted; None if it may.
    pub fn refuse_host(&self, host: &str) -> Option<String> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let mut suffix = host.as_str();
        loop {
            if self.hosts.contains(suffix) {
                return Some(format!("{suffix} is on the block list"));
            }
            suffix = suffix.split_once('.')?.1;
        }
    }

    /// Why this address must not be connected to; None if it may.
    pub fn refuse(&self, address: IpAddr) -> Option<String> {
        let target = embedded_v4(address).map_or(address, IpAddr::V4);
        if let Some(network) = self.networks.iter().find(|network| network.contains(&target)) {
            return Some(format!("{address} is on the block list ({network})"));
        }
        let range = if self.allow_private { None } else { special_range(address) };
        range.map(|range| format!("{address} is {range}"))
    }
}

fn parse_network(entry: &str) -> Result<Option<IpNet>> {
    if let Ok(address) = entry.parse::<IpAddr>() {
        return Ok(Some(address.into()));
    }
    let Some((address, _)) = entry.split_once('/') else { return Ok(None) };
    let Ok(address) = address.parse::<IpAddr>() else {
        bail!("'{entry}' is not a host, address or network");
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let network = entry.parse().with_context(|| format!("'{entry}': invalid prefix length; use 0 to {width}"));
    network.map(Some)
}

/// The name of the range that an address belongs to, unless it is a public one.
fn special_range(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => match embedded_v4(IpAddr::V6(address)) {
            Some(inner) => special_v4(inner),
            None => special_v6(address),
        },
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, d] = address.octets();
    Some(match (a, b, c, d) {
        (0, ..) => "unspecified",
        (127, ..) => "loopback",
        (169, 254, ..) => "link-local (used by cloud metadata services)",
        (168, 63, 129, 16) | (192, 0, 0, 192) => "a cloud's metadata service",
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => "private",
        (100, 64..=127, ..) => "shared address space",
        (192, 0, 0 | 2, _) | (198, 51, 100, _) | (203, 0, 113, _) | (192, 88, 99, _) => "reserved",
        (198, 18..=19, ..) => "reserved for benchmarks",
        (224..=239, ..) => "multicast",
        (240..=255, ..) => "reserved",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    Some(match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xfec0..=0xfeff, ..] => "site-local",
        [0xfc00..=0xfdff, ..] => "private",
        [0xff00..=0xffff, ..] => "multicast",
        [0x64, 0xff9b, 1, ..] => "a local translation prefix",
        [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] | [0x3fff, 0..=0xfff, ..] => "reserved",
        // Global unicast, the only range with public addresses.
        [0x2000..=0x3fff, ..] => return None,
        _ => "reserved",
    })
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, NAT64, 6to4 or Teredo.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(join(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        [0x2001, 0, _, _, _, _, high, low] => Some(join(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_are_refused_in_every_notation() {
        let rules = AddressRules::new(false);
        for internal in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:0:0:0:0:0:80ff:fffe",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "4000::1",
        ] {
            assert!(rules.refuse(internal.parse().unwrap()).is_some(), "{internal}");
        }
        for public in
            ["8.8.8.8", "172.32.0.1", "100.63.255.255", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert_eq!(rules.refuse(public.parse().unwrap()), None, "{public}");
        }
    }

    #[test]
    fn a_block_list_contains_hosts_addresses_and_networks() {
        let mut rules = AddressRules::new(true);
        rules.block("# ours\nexample.com\n*.bad.org # and below\n203.0.113.0/24\n2001:db8::/32\n8.8.8.8\n").unwrap();
        for host in ["example.com", "a.b.Example.com.", "x.bad.org", "bad.org"] {
            assert!(rules.refuse_host(host).is_some(), "{host}");
        }
        assert_eq!(rules.refuse_host("notexample.com"), None);
        for address in ["203.0.113.9", "2001:db8::1", "8.8.8.8", "::ffff:203.0.113.9"] {
            assert!(rules.refuse(address.parse().unwrap()).is_some(), "{address}");
        }
        assert_eq!(rules.refuse("127.0.0.1".parse().unwrap()), None);
        assert!(rules.block("10.0.0.0/33").is_err());
    }
}
