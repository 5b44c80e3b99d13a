//! Differences between a node's settings in force and new ones, and the report about them.

use byway_api::{ChangeKind, ReloadAnswer, SettingChange};

/// Returns for each old item the index of the equal new item; `None` if there is none.
pub(crate) fn match_unchanged<T: PartialEq>(old: &[T], new: &[T]) -> Vec<Option<usize>> {
    match_by(old, new, T::eq)
}

/// Returns for each old item the index of the new item that `is_same` accepts; `None` if there is
/// none. No new item matches two old ones.
pub(crate) fn match_by<T>(old: &[T], new: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; new.len()];
    let index = |old: &T| {
        let index = new.iter().enumerate().position(|(index, new)| free[index] && is_same(old, new))?;
        free[index] = false;
        Some(index)
    };
    old.iter().map(index).collect()
}

/// Report about a reload, to which each part of the node adds its changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReloadReport(ReloadAnswer);

impl ReloadReport {
    pub(crate) fn new(name: &str) -> Self {
        Self(ReloadAnswer { name: name.to_owned(), ..ReloadAnswer::default() })
    }

    pub(crate) fn answer(self) -> ReloadAnswer {
        self.0
    }

    /// Records that a setting has a new value, which is in force.
    pub(crate) fn changed(&mut self, setting: &str) {
        self.note(ChangeKind::Changed, setting.to_owned());
    }

    /// Records that a setting requires a restart of the node, if its value differs.
    pub(crate) fn restart(&mut self, setting: &str, differs: bool) {
        if differs {
            self.0.needs_restart.push(setting.to_owned());
        }
    }

    fn note(&mut self, change: ChangeKind, setting: String) {
        self.0.changes.push(SettingChange { change, setting });
    }

    /// Records the added, changed and removed items of a list, and counts the unchanged ones.
    /// `name` returns an item's name in the report; a changed item has the name of a former one.
    pub(crate) fn list<T: PartialEq>(&mut self, old: &[T], new: &[T], name: impl Fn(&T) -> String) {
        let matches = match_unchanged(old, new);
        let is_unchanged = |index: usize| matches.contains(&Some(index));
        let changed: Vec<String> = new
            .iter()
            .enumerate()
            .filter(|(index, _)| !is_unchanged(*index))
            .map(|(_, new)| name(new))
            .collect();
        let mut before: Vec<String> =
            old.iter().zip(&matches).filter(|(_, index)| index.is_none()).map(|(old, _)| name(old)).collect();
        for setting in changed {
            let former = before.iter().position(|former| *former == setting);
            let kind = former.map_or(ChangeKind::Added, |_| ChangeKind::Changed);
            former.map(|index| before.remove(index));
            self.note(kind, setting);
        }
        for setting in before {
            self.note(ChangeKind::Removed, setting);
        }
        let unchanged = matches.iter().flatten().count();
        self.0.unchanged += u32::try_from(unchanged).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_keeps_its_flows_wherever_it_stands_in_the_file() {
        assert_eq!(match_unchanged(&["a", "b", "c"], &["c", "d", "a"]), [Some(2), None, Some(0)]);
        assert_eq!(match_unchanged(&["a", "a"], &["a"]), [Some(0), None], "one stands for one");
        assert_eq!(match_unchanged::<u8>(&[], &[1]), []);
    }

    #[test]
    fn a_list_reports_what_came_went_changed_and_stayed() {
        let mut report = ReloadReport::new("alice");
        let name = |item: &(&str, u8)| format!("forward {}", item.0);
        report.list(&[("a", 1), ("b", 1), ("c", 1)], &[("c", 1), ("b", 2), ("d", 1)], name);
        report.restart("agent.name", false);
        report.restart("agent.listen", true);
        let answer = report.answer();
        let changes: Vec<String> =
            answer.changes.iter().map(|change| format!("{} {}", change.change, change.setting)).collect();
        assert_eq!(changes, ["changed forward b", "added forward d", "removed forward a"]);
        assert_eq!((answer.unchanged, answer.needs_restart), (1, vec!["agent.listen".to_owned()]));
    }
}
