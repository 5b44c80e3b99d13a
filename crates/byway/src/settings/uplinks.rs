//! Uplinks of an agent: the network devices by which it sends to peers and relays.

use std::fmt;
use std::net::SocketAddr;

use byway_config_types::{KeyPath, Problem, Source};
use byway_proto::Uplinks;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Longest name of a network device, in bytes: `IFNAMSIZ` of the kernel, without the final zero.
const DEVICE_NAME_BYTES_MAX: usize = 15;

/// Network device of an uplink: a name, or a table with more keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UplinkDevice {
    /// Name of the device.
    pub(crate) device: String,
    /// True if the bytes of the uplink cost money.
    pub(crate) is_metered: bool,
}

impl<'de> Deserialize<'de> for UplinkDevice {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(UplinkVisitor)
    }
}

struct UplinkVisitor;

impl<'de> Visitor<'de> for UplinkVisitor {
    type Value = UplinkDevice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a device, or a table such as { device = \"wwan0\", metered = true }")
    }

    fn visit_str<E: Error>(self, device: &str) -> Result<UplinkDevice, E> {
        Ok(UplinkDevice { device: device.to_owned(), is_metered: false })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UplinkDevice, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct UplinkTable {
            device: String,
            #[serde(default)]
            metered: bool,
        }
        let UplinkTable { device, metered } = UplinkTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(UplinkDevice { device, is_metered: metered })
    }
}

/// Sockets of an agent: its addresses, and the devices to which they are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenSettings {
    pub(crate) addresses: Vec<SocketAddr>,
    /// True if the addresses are the default.
    pub(crate) is_default: bool,
    /// Devices of one or two uplinks, the preferred one of direct paths first. Empty if the system
    /// chooses the device of each packet.
    pub(crate) uplinks: Vec<UplinkDevice>,
}

impl ListenSettings {
    /// Returns the names of the uplinks' devices.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.uplinks.iter().map(|uplink| uplink.device.clone()).collect()
    }

    /// Returns the uplinks between which the agent chooses.
    pub(crate) fn choice(&self) -> Uplinks {
        match &self.uplinks[..] {
            [_, second] => Uplinks::Two { is_second_metered: second.is_metered },
            _ => Uplinks::One,
        }
    }
}

/// Validates the uplinks of an agent that listens on these addresses.
///
/// # Errors
/// If there are none or more than two, if a name is invalid or occurs twice, or if the first one is
/// metered. Also if an agent with two listens on an address of one device.
pub(super) fn uplinks(
    typed: Option<Vec<UplinkDevice>>,
    listen: &[SocketAddr],
    source: &Source,
) -> Result<Vec<UplinkDevice>, Problem> {
    let Some(typed) = typed else {
        return Ok(Vec::new());
    };
    let key = KeyPath::of("agent").key("uplinks");
    let invalid = typed.iter().find(|uplink| !is_device_name(&uplink.device));
    let fixed = listen.iter().find(|address| !address.ip().is_unspecified());
    let message = match (&typed[..], invalid, fixed) {
        ([], ..) => {
            "no uplink in the list: name one or two network devices, as in [\"eth0\", \"wwan0\"], or \
                     remove the key"
                .to_owned()
        }
        ([_, _, _, ..], ..) => format!("{} uplinks: name at most two network devices", typed.len()),
        (_, Some(invalid), _) => format!(
            "invalid name of a network device, {:?}: write 1 to {DEVICE_NAME_BYTES_MAX} bytes without spaces \
             and slashes (ip link shows all)",
            invalid.device
        ),
        ([only], ..) if only.is_metered => format!(
            "metered device {:?} alone: only the second of two devices can be metered, so remove \"metered\"",
            only.device
        ),
        ([first, second], ..) if first.device == second.device => {
            format!("device {:?} named twice: name two different devices, or one", first.device)
        }
        ([first, second], ..) if first.is_metered => format!(
            "metered device {:?} before {:?}: direct paths prefer the first device, so write the metered one \
             second",
            first.device, second.device
        ),
        ([_, _], _, Some(fixed)) => format!(
            "agent.listen has {fixed}, which belongs to one device: with two uplinks, listen on 0.0.0.0 or \
             [::]"
        ),
        _ => return Ok(typed),
    };
    Err(source.problem(&key, message))
}

/// True if the kernel may accept the name for a network device.
fn is_device_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
    (1..=DEVICE_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && name != "."
        && name != ".."
}

#[cfg(test)]
mod tests {
    use crate::settings::agent_of;

    /// Returns the uplinks of an agent with this value, or the error.
    fn read(value: &str) -> Result<Vec<(String, bool)>, String> {
        let settings = agent_of(&format!("[agent]\nname = \"alice\"\n{value}\n"));
        let settings = settings.map_err(|problem| problem.to_string())?;
        let uplinks = settings.listen.uplinks.into_iter();
        Ok(uplinks.map(|uplink| (uplink.device, uplink.is_metered)).collect())
    }

    #[test]
    fn uplinks_are_names_or_tables() {
        let uplink = |name: &str, is_metered| (name.to_owned(), is_metered);
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("uplinks = [\"eth0\"]"), Ok(vec![uplink("eth0", false)]));
        assert_eq!(
            read("uplinks = [\"eth0\", { device = \"wwan0\", metered = true }]"),
            Ok(vec![uplink("eth0", false), uplink("wwan0", true)])
        );
        assert_eq!(
            read("uplinks = [{ device = \"eth0\" }, \"eth0.7\"]\nlisten = [\"0.0.0.0:4600\"]"),
            Ok(vec![uplink("eth0", false), uplink("eth0.7", false)])
        );
    }

    #[test]
    fn wrong_uplinks_are_named_with_the_remedy() {
        for (value, words) in [
            ("uplinks = []", "name one or two"),
            ("uplinks = [\"a\", \"b\", \"c\"]", "3 uplinks"),
            ("uplinks = [\"eth0\", \"eth0\"]", "\"eth0\" named twice"),
            ("uplinks = [\"eth0\", \"\"]", "invalid name of a network device, \"\""),
            ("uplinks = [\"a name with spaces\"]", "\"a name with spaces\""),
            ("uplinks = [\"sixteen-letters-\"]", "1 to 15 bytes"),
            ("uplinks = [\"../eth0\"]", "\"../eth0\""),
            ("uplinks = [{ device = \"wwan0\", metered = true }, \"eth0\"]", "metered device \"wwan0\""),
            ("uplinks = [{ device = \"wwan0\", metered = true }]", "only the second of two"),
            ("uplinks = [\"eth0\", \"wwan0\"]\nlisten = [\"192.0.2.1:4600\"]", "192.0.2.1:4600"),
            ("uplinks = [\"eth0\", { metered = true }]", "device"),
            ("uplinks = [\"eth0\", { device = \"wwan0\", price = 3 }]", "price"),
            ("uplinks = [\"eth0\", 7]", "the name of a device"),
            ("uplinks = \"eth0\"", "sequence"),
        ] {
            let error = read(value).expect_err(value);
            assert!(error.contains(words), "{value}: {error}");
        }
    }
}
