//! Programs in machines.

use std::path::{Component, Path, PathBuf};

use byway_typed::{KeyPath, Problem};
use byway_units::Duration;

use super::names::Names;
use super::{Reader, element};
use crate::command::{Command, Life, Placeholder, Ready, Template};
use crate::limits::{COMMAND_PARTS_MAX, COMMANDS_MAX};
use crate::scenario::{FlowPlan, Load};
use crate::typed::{TypedCommand, TypedCommandKind};

/// When tasks begin, unless they are told otherwise: with other applications.
const BEGIN: Duration = Duration::from_secs(2);

/// What commands may name.
struct Known<'a> {
    names: &'a Names,
    flows: &'a [FlowPlan],
}

impl Reader<'_> {
    pub(super) fn commands(
        &self,
        typed: &[TypedCommand],
        names: &Names,
        flows: &[FlowPlan],
        length: Duration,
    ) -> Result<Vec<Command>, Problem> {
        if typed.len() > COMMANDS_MAX {
            let message = format!("there are more than {COMMANDS_MAX} commands: have fewer");
            return Err(self.problem(&element("command", COMMANDS_MAX), message));
        }
        let known = Known { names, flows };
        let mut found = Vec::new();
        for (place, command) in typed.iter().enumerate() {
            let here = element("command", place);
            self.expect_plain(&here.key("name"), &command.name)?;
            if typed[..place].iter().any(|before| before.name == command.name) {
                let message = format!("another command is called {:?}: names differ", command.name);
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
            let message = format!("there are more than {COMMANDS_MAX} commands in all machines: have fewer");
            return Err(self.problem(&element("command", typed.len() - 1), message));
        }
        Ok(found)
    }

    fn command(
        &self,
        here: &KeyPath,
        typed: &TypedCommand,
        (name, node): (String, usize),
        known: &Known<'_>,
        length: Duration,
    ) -> Result<Command, Problem> {
        let parts = [
            ("run", typed.run.len()),
            ("files", typed.files.len()),
            ("environment", typed.environment.len()),
        ];
        if let Some((key, count)) = parts.into_iter().find(|(_, count)| *count > COMMAND_PARTS_MAX) {
            let message = format!(
                "{count} are too many: at most {COMMAND_PARTS_MAX}; have a script beside the scenario"
            );
            return Err(self.problem(&here.key(key), message));
        }
        let template = |path: &KeyPath, text: &str| self.template(path, text, node, known);
        let run = typed.run.iter().enumerate();
        let run: Vec<Template> =
            run.map(|(nth, text)| template(&here.key("run").place(nth), text)).collect::<Result<_, _>>()?;
        if typed.run.first().is_none_or(String::is_empty) {
            return Err(
                self.problem(&here.key("run"), "says not what runs: give a program and its arguments")
            );
        }
        let files = typed.files.iter().map(|(name, text)| {
            let path = here.key("files").named(name);
            Ok((self.file_name(&path, name)?, template(&path, text)?))
        });
        let environment = typed.environment.iter().map(|(name, text)| {
            let path = here.key("environment").named(name);
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.problem(&path, format!("{name:?} is no variable: leave = out")));
            }
            Ok((name.clone(), template(&path, text)?))
        });
        Ok(Command {
            name,
            place: self.source.place(here),
            node,
            run,
            files: files.collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
            life: self.life(here, typed, length)?,
        })
    }

    fn life(&self, here: &KeyPath, typed: &TypedCommand, length: Duration) -> Result<Life, Problem> {
        if typed.kind == Some(TypedCommandKind::Service) {
            let keys = [("at", typed.at.is_some()), ("within", typed.within.is_some())];
            if let Some((key, _)) = keys.into_iter().find(|(_, is_given)| *is_given) {
                let message = "is of tasks, and a service runs all the time: leave it out";
                return Err(self.problem(&here.key(key), message));
            }
            let ready = typed.ready.as_deref().map(|text| self.ready(&here.key("ready"), text));
            return Ok(Life::Service(ready.transpose()?));
        }
        if typed.ready.is_some() {
            let message = "is of services: leave it out, or give kind = \"service\"";
            return Err(self.problem(&here.key("ready"), message));
        }
        let at = typed.at.map_or(BEGIN.min(length), |at| at.0);
        if at >= length {
            let message = format!("{at} is not before the end, {length}: take an earlier time");
            return Err(self.problem(&here.key("at"), message));
        }
        let within = typed.within.map_or(length - at, |within| within.0);
        if within.is_zero() || within > length - at {
            let left = length - at;
            let message =
                format!("{within} is out of range: more than 0 s, and {left} are left of the scenario");
            return Err(self.problem(&here.key("within"), message));
        }
        Ok(Life::Task { at, within })
    }

    fn ready(&self, path: &KeyPath, text: &str) -> Result<Ready, Problem> {
        let port = |port: &str| port.parse().ok().filter(|port| *port != 0);
        let ready = match text.split_once(':') {
            Some(("tcp", number)) => port(number).map(Ready::Tcp),
            Some(("udp", number)) => port(number).map(Ready::Udp),
            Some(("output", line)) if !line.is_empty() => Some(Ready::Output(line.to_owned())),
            _ => None,
        };
        ready.ok_or_else(|| {
            let message = format!("{text:?} shows nothing: write \"tcp:80\", \"udp:53\" or \"output:TEXT\"");
            self.problem(path, message)
        })
    }

    /// The path of a file within a folder.
    fn file_name(&self, path: &KeyPath, name: &str) -> Result<PathBuf, Problem> {
        let file = Path::new(name);
        let is_within = file.components().all(|component| matches!(component, Component::Normal(_)));
        if name.is_empty() || name.ends_with('/') || name.contains('\0') || !is_within {
            let message =
                format!("{name:?} is no file of the command's folder: write a name as in \"my.conf\"");
            return Err(self.problem(path, message));
        }
        Ok(file.to_owned())
    }

    fn template(
        &self,
        path: &KeyPath,
        text: &str,
        node: usize,
        known: &Known<'_>,
    ) -> Result<Template, Problem> {
        if text.contains('\0') {
            return Err(self.problem(path, "has a zero byte, which no program takes: leave it out"));
        }
        let read = Template::read(text, |word, name| known.placeholder(word, name, node));
        read.map_err(|message| self.problem(path, message))
    }
}

impl Known<'_> {
    /// What a word in braces means, in a command of this machine.
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
                Err(format!("is none of {known}"))
            }
        }
    }

    fn addresses(&self, name: &str, of: fn(usize, usize) -> Placeholder) -> Result<Placeholder, String> {
        self.names.with_programs(name).map(|members| of(members.start, members.len()))
    }

    /// The flow of this name that programs of a machine send.
    fn flow(&self, name: &str, node: usize) -> Result<usize, String> {
        let mut all = self.flows.iter().enumerate().filter(|(_, flow)| flow.name == name).peekable();
        if all.peek().is_none() {
            return Err(format!("there is no flow {name:?}"));
        }
        let of_programs: Vec<_> = all.filter(|(_, flow)| matches!(flow.load, Load::Programs(_))).collect();
        if of_programs.is_empty() {
            return Err(format!(
                "programs do not send flow {name:?}: give it sends = {{ kind = \"command\", ... }}"
            ));
        }
        let from_here: Vec<usize> =
            of_programs.iter().filter(|(_, flow)| flow.from == node).map(|(place, _)| *place).collect();
        match from_here[..] {
            [place] => Ok(place),
            [] => Err(format!("flow {name:?} does not begin at {}", self.names.name(node))),
            _ => Err(format!(
                "{} flows {name:?} begin at {}: give them names of their own",
                from_here.len(),
                self.names.name(node)
            )),
        }
    }
}
