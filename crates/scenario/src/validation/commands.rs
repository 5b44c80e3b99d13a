//! Validation of the programs that a lab runs on machines.

use std::path::{Component, Path, PathBuf};

use byway_config_types::{KeyPath, Problem};
use byway_units::Duration;

use super::names::Names;
use super::{Reader, element};
use crate::command::{Command, Lifecycle, Placeholder, ReadinessCheck, Template};
use crate::limits::{COMMAND_PARTS_MAX, COMMANDS_MAX};
use crate::raw::{CommandKindSetting, CommandSetting};
use crate::scenario::{FlowPlan, Load};

/// Default start of tasks: that of simulated applications.
const BEGIN: Duration = Duration::from_secs(2);

/// Machines and flows whose names the placeholders of commands may use.
struct CommandContext<'a> {
    names: &'a Names,
    flows: &'a [FlowPlan],
}

impl Reader<'_> {
    pub(super) fn commands(
        &self,
        typed: &[CommandSetting],
        names: &Names,
        flows: &[FlowPlan],
        length: Duration,
    ) -> Result<Vec<Command>, Problem> {
        if typed.len() > COMMANDS_MAX {
            let message = format!("too many commands: at most {COMMANDS_MAX}");
            return Err(self.problem(&element("command", COMMANDS_MAX), message));
        }
        let known = CommandContext { names, flows };
        let mut found = Vec::new();
        for (index, command) in typed.iter().enumerate() {
            let here = element("command", index);
            self.expect_plain(&here.key("name"), &command.name)?;
            if typed[..index].iter().any(|before| before.name == command.name) {
                let message = format!("duplicate name {:?}: give each command its own", command.name);
                return Err(self.problem(&here.key("name"), message));
            }
            let nodes = names.with_programs(&command.node);
            let nodes = nodes.map_err(|message| self.problem(&here.key("node"), message))?;
            let is_alone = nodes.len() == 1;
            for (nth, node) in nodes.enumerate() {
                let name =
                    if is_alone { command.name.clone() } else { format!("{}.{}", command.name, nth + 1) };
                found.push(self.command(&here, command, (name, node), &known, length)?);
            }
        }
        if found.len() > COMMANDS_MAX {
            let message = format!("too many commands in all machines: at most {COMMANDS_MAX}");
            return Err(self.problem(&element("command", typed.len() - 1), message));
        }
        Ok(found)
    }

    fn command(
        &self,
        here: &KeyPath,
        typed: &CommandSetting,
        (name, node): (String, usize),
        known: &CommandContext<'_>,
        length: Duration,
    ) -> Result<Command, Problem> {
        let parts = [
            ("run", typed.run.len()),
            ("files", typed.files.len()),
            ("environment", typed.environment.len()),
        ];
        if let Some((key, count)) = parts.into_iter().find(|(_, count)| *count > COMMAND_PARTS_MAX) {
            let message = format!(
                "{count} are too many, at most {COMMAND_PARTS_MAX}: run a script in the scenario's \
                 folder instead"
            );
            return Err(self.problem(&here.key(key), message));
        }
        let template = |path: &KeyPath, text: &str| self.template(path, text, node, known);
        let run = typed.run.iter().enumerate();
        let run: Vec<Template> =
            run.map(|(nth, text)| template(&here.key("run").index(nth), text)).collect::<Result<_, _>>()?;
        if typed.run.first().is_none_or(String::is_empty) {
            return Err(self.problem(&here.key("run"), "missing: set the program and its arguments"));
        }
        let files = typed.files.iter().map(|(name, text)| {
            let path = here.key("files").named(name);
            Ok((self.file_name(&path, name)?, template(&path, text)?))
        });
        let environment = typed.environment.iter().map(|(name, text)| {
            let path = here.key("environment").named(name);
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.problem(&path, format!("invalid name of a variable {name:?}: remove =")));
            }
            Ok((name.clone(), template(&path, text)?))
        });
        Ok(Command {
            name,
            location: self.source.location(here),
            node,
            run,
            files: files.collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
            lifecycle: self.lifecycle(here, typed, length)?,
        })
    }

    fn lifecycle(
        &self,
        here: &KeyPath,
        typed: &CommandSetting,
        length: Duration,
    ) -> Result<Lifecycle, Problem> {
        if typed.kind == Some(CommandKindSetting::Service) {
            let keys = [("at", typed.at.is_some()), ("within", typed.within.is_some())];
            if let Some((key, _)) = keys.into_iter().find(|(_, is_given)| *is_given) {
                let message = "not allowed for services, which run until the end: omit it";
                return Err(self.problem(&here.key(key), message));
            }
            let ready = typed.ready.as_deref().map(|text| self.ready(&here.key("ready"), text));
            return Ok(Lifecycle::Service(ready.transpose()?));
        }
        if typed.ready.is_some() {
            let message = "only allowed for services: omit it, or set kind = \"service\"";
            return Err(self.problem(&here.key("ready"), message));
        }
        let at = typed.at.map_or(BEGIN.min(length), |at| at.0);
        if at >= length {
            let message = format!("{at} is not before the end, {length}: set an earlier time");
            return Err(self.problem(&here.key("at"), message));
        }
        let within = typed.within.map_or(length - at, |within| within.0);
        if within.is_zero() || within > length - at {
            let left = length - at;
            let message = format!(
                "{within} is out of range: more than 0 s, and at most the remaining {left} of the scenario"
            );
            return Err(self.problem(&here.key("within"), message));
        }
        Ok(Lifecycle::Task { at, within })
    }

    fn ready(&self, path: &KeyPath, text: &str) -> Result<ReadinessCheck, Problem> {
        let port = |port: &str| port.parse().ok().filter(|port| *port != 0);
        let ready = match text.split_once(':') {
            Some(("tcp", number)) => port(number).map(ReadinessCheck::Tcp),
            Some(("udp", number)) => port(number).map(ReadinessCheck::Udp),
            Some(("output", line)) if !line.is_empty() => Some(ReadinessCheck::Output(line.to_owned())),
            _ => None,
        };
        ready.ok_or_else(|| {
            let message =
                format!("invalid readiness check {text:?}: write \"tcp:80\", \"udp:53\" or \"output:TEXT\"");
            self.problem(path, message)
        })
    }

    /// Returns the path of a command's file, which must be inside the command's folder.
    fn file_name(&self, path: &KeyPath, name: &str) -> Result<PathBuf, Problem> {
        let file = Path::new(name);
        let is_within = file.components().all(|component| matches!(component, Component::Normal(_)));
        if name.is_empty() || name.ends_with('/') || name.contains('\0') || !is_within {
            let message = format!(
                "invalid name {name:?} of a file in the command's folder: write it as in \"my.conf\""
            );
            return Err(self.problem(path, message));
        }
        Ok(file.to_owned())
    }

    fn template(
        &self,
        path: &KeyPath,
        text: &str,
        node: usize,
        known: &CommandContext<'_>,
    ) -> Result<Template, Problem> {
        if text.contains('\0') {
            return Err(self.problem(path, "contains a zero byte, which programs cannot receive: remove it"));
        }
        let read = Template::read(text, |word, name| known.placeholder(word, name, node));
        read.map_err(|message| self.problem(path, message))
    }
}

impl CommandContext<'_> {
    /// Resolves the placeholder `{word}` or `{word:name}` in a command of this machine.
    fn placeholder(&self, word: &str, name: Option<&str>, node: usize) -> Result<Placeholder, String> {
        match (word, name) {
            ("folder", None) => Ok(Placeholder::Folder),
            ("here", None) => Ok(Placeholder::Here),
            ("byway", None) => Ok(Placeholder::Byway),
            ("address", Some(name)) => self.addresses(name, Placeholder::Address),
            ("address6", Some(name)) => self.addresses(name, Placeholder::Address6),
            ("to", Some(name)) => self.flow(name, node).map(Placeholder::To),
            ("to-host", Some(name)) => self.flow(name, node).map(Placeholder::ToHost),
            ("to-port", Some(name)) => self.flow(name, node).map(Placeholder::ToPort),
            _ => {
                let known = "{address:MACHINE}, {address6:MACHINE}, {byway}, {folder}, {here}, {to:FLOW}, {to-host:FLOW} or {to-port:FLOW}";
                Err(format!("is not one of {known}"))
            }
        }
    }

    fn addresses(&self, name: &str, of: fn(usize, usize) -> Placeholder) -> Result<Placeholder, String> {
        self.names.with_programs(name).map(|members| of(members.start, members.len()))
    }

    /// Returns the flow of this name that programs of this machine send.
    fn flow(&self, name: &str, node: usize) -> Result<usize, String> {
        let mut all = self.flows.iter().enumerate().filter(|(_, flow)| flow.name == name).peekable();
        if all.peek().is_none() {
            return Err(format!("flow {name:?} not found"));
        }
        let of_programs: Vec<_> = all.filter(|(_, flow)| matches!(flow.load, Load::Programs(_))).collect();
        if of_programs.is_empty() {
            return Err(format!(
                "flow {name:?} is not sent by programs: set sends = {{ kind = \"command\", ... }}"
            ));
        }
        let from_here: Vec<usize> =
            of_programs.iter().filter(|(_, flow)| flow.from == node).map(|(index, _)| *index).collect();
        match from_here[..] {
            [index] => Ok(index),
            [] => Err(format!("flow {name:?} does not start at {}", self.names.name(node))),
            _ => Err(format!(
                "{} flows {name:?} start at {}: give them different names",
                from_here.len(),
                self.names.name(node)
            )),
        }
    }
}
