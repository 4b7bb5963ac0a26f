//! Who may say which host was asked for.

use std::net::{IpAddr, SocketAddr};

/// Addresses and networks of proxies that are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Proxies(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    /// As 128 bits: those of IPv4 are in front.
    bits: u128,
    is_v4: bool,
    prefix: u32,
}

/// The bits of an address from the first on, and whether they are of IPv4.
fn bits(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
        IpAddr::V6(address) => (address.to_bits(), false),
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(it, prefix)| (it, Some(prefix)));
        let (bits, is_v4) = bits(address.parse().ok()?);
        let most = if is_v4 { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= most && !text.contains('+'))?,
            None => most,
        };
        Some(Self { bits, is_v4, prefix })
    }

    fn contains(&self, (bits, is_v4): (u128, bool)) -> bool {
        let differing = (self.bits ^ bits).leading_zeros();
        self.is_v4 == is_v4 && differing >= self.prefix
    }
}

impl Proxies {
    /// Addresses and networks with commas between.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            Network::parse(part).ok_or_else(|| {
                format!("{part:?} is no address or network: those like 10.0.0.0/8, 192.0.2.7 or ::1 are")
            })
        };
        parts.map(network).collect::<Result<_, _>>().map(Self)
    }

    /// Whether who is at the other end is believed.
    pub(super) fn trust(&self, peer: Option<SocketAddr>) -> bool {
        let Some(peer) = peer else { return false };
        let bits = bits(peer.ip());
        self.0.iter().any(|network| network.contains(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_are_named_are_trusted() {
        let proxies = Proxies::parse(" 10.0.0.0/8,192.0.2.7, fd00::/8 , ::1").unwrap();
        for (peer, expected) in [
            ("10.255.0.1:1", true),
            ("11.0.0.1:1", false),
            ("192.0.2.7:1", true),
            ("192.0.2.6:1", false),
            ("[::ffff:10.1.2.3]:1", true),
            ("[fd12::1]:1", true),
            ("[fe00::1]:1", false),
            ("[::1]:1", true),
            ("127.0.0.1:1", false),
        ] {
            assert_eq!(proxies.trust(Some(peer.parse().unwrap())), expected, "{peer}");
        }
        assert!(!proxies.trust(None));
        assert!(!Proxies::parse("").unwrap().trust(Some("10.0.0.1:1".parse().unwrap())));
        assert!(Proxies::parse("0.0.0.0/0").unwrap().trust(Some("203.0.113.9:1".parse().unwrap())));
        for wrong in ["10.0.0.0/33", "a", "10.0.0.1/+8", "10.0.0.1/", "::/129", "10.0.0"] {
            assert!(
                Proxies::parse(wrong).unwrap_err().starts_with(&format!("{wrong:?} is no address")),
                "{wrong}"
            );
        }
    }
}
