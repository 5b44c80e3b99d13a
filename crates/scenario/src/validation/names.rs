//! Validation of machine names.

use std::collections::BTreeMap;
use std::ops::Range;

use byway_config_types::{KeyPath, Problem};

use super::{Reader, element};
use crate::limits::NODES_MAX;
use crate::raw::{NodeSetting, RoleSetting};
use crate::scenario::{Node, Role};

/// Machines of a scenario, with a look-up by name.
pub(super) struct Names {
    nodes: Vec<Node>,
    by_name: BTreeMap<String, Range<usize>>,
}

impl Names {
    pub(super) fn of(reader: &Reader<'_>, typed: &[NodeSetting]) -> Result<Self, Problem> {
        let mut names = Self { nodes: Vec::new(), by_name: BTreeMap::new() };
        for (index, node) in typed.iter().enumerate() {
            names.add(reader, &element("node", index), node)?;
        }
        if names.nodes.is_empty() {
            return Err(
                reader.problem(&KeyPath::of("node"), "no machines: add [[node]] with a name and a role")
            );
        }
        Ok(names)
    }

    fn add(&mut self, reader: &Reader<'_>, here: &KeyPath, typed: &NodeSetting) -> Result<(), Problem> {
        let name = &typed.name;
        reader.expect_plain(&here.key("name"), name)?;
        if self.by_name.contains_key(name) {
            let message = format!("duplicate name {name:?}: give each machine its own");
            return Err(reader.problem(&here.key("name"), message));
        }
        let first = self.nodes.len();
        let count = typed.count.unwrap_or(1) as usize;
        if count == 0 || first + count > NODES_MAX {
            let message = format!("{count} is out of range: 1 to {}", NODES_MAX - first);
            return Err(reader.problem(&here.key("count"), message));
        }
        let role = match typed.role {
            RoleSetting::Agent => Role::Agent,
            RoleSetting::Relay => Role::Relay,
            RoleSetting::Router => Role::Router,
        };
        if typed.follows_up.is_some() && role != Role::Relay {
            let message = format!("not allowed for {}: only relays follow up", word(role));
            return Err(reader.problem(&here.key("follows_up"), message));
        }
        if typed.transit.is_some() && role != Role::Relay {
            let message = format!("not allowed for {}: only relays pass on packets of relays", word(role));
            return Err(reader.problem(&here.key("transit"), message));
        }
        if let Some(uplink) = &typed.uplink {
            let path = here.key("uplink");
            if role != Role::Relay {
                let message = format!("not allowed for {}: only relays have an uplink", word(role));
                return Err(reader.problem(&path, message));
            }
            uplink.settings(1).map_err(|no| reader.problem(&path.key(no.key), no.message))?;
        }
        if typed.nat.is_some() && role != Role::Router {
            let message = format!("not allowed for {}: only routers translate addresses", word(role));
            return Err(reader.problem(&here.key("nat"), message));
        }
        if typed.bare.is_some() && role != Role::Agent {
            let message = format!("not allowed for {}: only agents can be left out", word(role));
            return Err(reader.problem(&here.key("bare"), message));
        }
        let bare = typed.bare.unwrap_or(false).then(|| reader.source.location(&here.key("bare")));
        let follows_up = typed.follows_up.unwrap_or(true);
        let nat = typed.nat.unwrap_or(false).then(|| reader.source.location(&here.key("nat")));
        let is_one = typed.count.is_none();
        let called = |nth| if is_one { name.clone() } else { format!("{name}.{nth}") };
        let uplink = &typed.uplink;
        let node = |nth| Node {
            name: called(nth),
            role,
            follows_up,
            transit: typed.transit.unwrap_or(false),
            uplink: uplink.clone(),
            nat: nat.clone(),
            bare: bare.clone(),
            behind: None,
        };
        self.nodes.extend((1..=count).map(node));
        self.by_name.insert(name.clone(), first..first + count);
        Ok(())
    }

    /// Returns the name of the machine with this index.
    pub(super) fn name(&self, index: usize) -> &str {
        &self.nodes[index].name
    }

    /// Returns the role of the machine with this index.
    pub(super) fn role(&self, index: usize) -> Role {
        self.nodes[index].role
    }

    /// Returns all machines, by index.
    pub(super) fn all(&self) -> &[Node] {
        &self.nodes
    }

    /// Records that a router translates the addresses of a machine.
    pub(super) fn put_behind(&mut self, machine: usize, router: usize) {
        self.nodes[machine].behind = Some(router);
    }

    pub(super) fn nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Returns the indexes of the machines of a name: one, or all of a kind.
    pub(super) fn members(
        &self,
        reader: &Reader<'_>,
        path: &KeyPath,
        name: &str,
    ) -> Result<Range<usize>, Problem> {
        self.resolve(name).map_err(|message| reader.problem(path, message))
    }

    fn resolve(&self, name: &str) -> Result<Range<usize>, String> {
        let (kind, nth) = match name.split_once('.') {
            Some((kind, nth)) => (kind, Some(nth)),
            None => (name, None),
        };
        let Some(all) = self.by_name.get(kind) else {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            return Err(format!("machine {kind:?} not found: name one of {}", known.join(", ")));
        };
        let Some(nth) = nth else {
            return Ok(all.clone());
        };
        let index = nth.parse::<usize>().ok().filter(|nth| (1..=all.len()).contains(nth));
        let Some(index) = index else {
            return Err(format!(
                "machine {name:?} not found: number the {} machines {kind:?} from 1",
                all.len()
            ));
        };
        Ok(all.start + index - 1..all.start + index)
    }

    /// Returns the machines of a name, which all must have this role.
    pub(super) fn of_role(
        &self,
        reader: &Reader<'_>,
        path: &KeyPath,
        name: &str,
        role: Role,
    ) -> Result<Range<usize>, Problem> {
        let members = self.members(reader, path, name)?;
        if self.nodes[members.start].role == role {
            return Ok(members);
        }
        let (is, needed) = (word(self.nodes[members.start].role), word(role));
        Err(reader.problem(path, format!("{name:?} is {is}: name {needed}")))
    }

    /// Returns the single machine of a name, which must have this role.
    pub(super) fn one_of_role(
        &self,
        reader: &Reader<'_>,
        path: &KeyPath,
        name: &str,
        role: Role,
    ) -> Result<usize, Problem> {
        let members = self.of_role(reader, path, name, role)?;
        Self::one(members, name).map_err(|message| reader.problem(path, message))
    }

    /// Returns the machine of this name that has programs, or all of a kind.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn with_programs(&self, name: &str) -> Result<Range<usize>, String> {
        let members = self.resolve(name)?;
        if self.nodes[members.start].role == Role::Router {
            return Err(format!("{name:?} is a router, which has no programs: name an agent or a relay"));
        }
        Ok(members)
    }

    fn one(members: Range<usize>, name: &str) -> Result<usize, String> {
        if members.len() == 1 {
            return Ok(members.start);
        }
        Err(format!("{name:?} names {} machines: name one, such as \"{name}.1\"", members.len()))
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        Role::Agent => "an agent",
        Role::Relay => "a relay",
        Role::Router => "a router",
    }
}

/// Pairs the machines of two names: the first with the first and so on, or one with each.
///
/// # Errors
/// If their numbers differ.
pub(super) fn matched(one: Range<usize>, other: Range<usize>) -> Result<Vec<(usize, usize)>, String> {
    match (one.len(), other.len()) {
        (count, same) if count == same => Ok(one.zip(other).collect()),
        (1, _) => Ok(other.map(|end| (one.start, end)).collect()),
        (_, 1) => Ok(one.map(|end| (end, other.start)).collect()),
        (count, differs) => Err(format!(
            "cannot match {count} machines with {differs}: use as many of both, or one of either"
        )),
    }
}
