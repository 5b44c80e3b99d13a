//! The difference between settings in force and settings that were read anew.

use byway_api::{ChangeKind, ReloadAnswer, SettingChange};

/// By the place of each old item, the place of the new one that is the same.
pub(crate) fn kept<T: PartialEq>(old: &[T], new: &[T]) -> Vec<Option<usize>> {
    kept_by(old, new, T::eq)
}

/// The same, where this says which are the same. No new item stands for two old ones.
pub(crate) fn kept_by<T>(old: &[T], new: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; new.len()];
    let place = |old: &T| {
        let place = new.iter().enumerate().position(|(place, new)| free[place] && is_same(old, new))?;
        free[place] = false;
        Some(place)
    };
    old.iter().map(place).collect()
}

/// An answer about a reload, as it comes together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report(ReloadAnswer);

impl Report {
    pub(crate) fn new(name: &str) -> Self {
        Self(ReloadAnswer { name: name.to_owned(), ..ReloadAnswer::default() })
    }

    pub(crate) fn answer(self) -> ReloadAnswer {
        self.0
    }

    /// Notes a setting with another value.
    pub(crate) fn changed(&mut self, setting: &str) {
        self.note(ChangeKind::Changed, setting.to_owned());
    }

    /// Notes a setting that waits for a restart, if it differs.
    pub(crate) fn restart(&mut self, setting: &str, differs: bool) {
        if differs {
            self.0.needs_restart.push(setting.to_owned());
        }
    }

    fn note(&mut self, change: ChangeKind, setting: String) {
        self.0.changes.push(SettingChange { change, setting });
    }

    /// Notes what of a list is new, gone, or another one by the same name.
    pub(crate) fn list<T: PartialEq>(&mut self, old: &[T], new: &[T], name: impl Fn(&T) -> String) {
        let places = kept(old, new);
        let is_kept = |place: usize| places.contains(&Some(place));
        let changed: Vec<String> =
            new.iter().enumerate().filter(|(place, _)| !is_kept(*place)).map(|(_, new)| name(new)).collect();
        let mut before: Vec<String> =
            old.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(old, _)| name(old)).collect();
        for setting in changed {
            let former = before.iter().position(|former| *former == setting);
            let kind = former.map_or(ChangeKind::Added, |_| ChangeKind::Changed);
            former.map(|place| before.remove(place));
            self.note(kind, setting);
        }
        for setting in before {
            self.note(ChangeKind::Removed, setting);
        }
        let unchanged = places.iter().flatten().count();
        self.0.unchanged += u32::try_from(unchanged).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_keeps_its_flows_wherever_it_stands_in_the_file() {
        assert_eq!(kept(&["a", "b", "c"], &["c", "d", "a"]), [Some(2), None, Some(0)]);
        assert_eq!(kept(&["a", "a"], &["a"]), [Some(0), None], "one stands for one");
        assert_eq!(kept::<u8>(&[], &[1]), []);
    }

    #[test]
    fn a_list_reports_what_came_went_changed_and_stayed() {
        let mut report = Report::new("alice");
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
