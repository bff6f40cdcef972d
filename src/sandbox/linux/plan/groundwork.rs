//! The part of a plan that comes first: namespaces, control groups, and the root as far as it is the same for every call.
//! It may be carried out before there is a call.

use serde::{Deserialize, Serialize};

use super::{GroupPlan, Isolation, LaunchPlan, RootStep, Supervision};

/// What a launcher does before it reads the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groundwork {
    /// Namespaces, and the first steps of the root.
    pub isolation: Option<Isolation>,
    /// Who ends every process of the run.
    pub supervision: Supervision,
    /// Control groups for the whole run.
    pub groups: Option<GroupPlan>,
    /// Whether the plan comes later, so that the end of this part is to be told.
    pub ahead: bool,
}

impl Groundwork {
    /// The least: every step of the root comes with the plan.
    pub fn least(plan: &LaunchPlan) -> Self {
        let isolation = plan.isolation.as_ref().map(Isolation::without_steps);
        Self { isolation, supervision: plan.supervision, groups: plan.groups.clone(), ahead: false }
    }

    /// All of a plan that names no mounts and files of a call: others of its kind go on from there.
    pub fn ahead_of(plan: LaunchPlan) -> Self {
        let LaunchPlan { isolation, supervision, groups, .. } = plan;
        Self { isolation, supervision, groups, ahead: true }
    }

    /// What is left of a plan after this; `None` where the plan asks for other ground.
    pub fn rest_of(&self, mut plan: LaunchPlan) -> Option<LaunchPlan> {
        if !self.fits(&plan) || !plan.steps().starts_with(self.steps()) {
            return None;
        }
        if let Some(isolation) = &mut plan.isolation {
            isolation.root.drain(..self.steps().len());
        }
        Some(plan)
    }

    /// The whole plan, from what was left of it; `None` where that asks for other ground.
    pub fn and(mut self, mut rest: LaunchPlan) -> Option<LaunchPlan> {
        if !self.fits(&rest) {
            return None;
        }
        if let (Some(done), Some(left)) = (&mut self.isolation, &mut rest.isolation) {
            done.root.append(&mut left.root);
        }
        Some(LaunchPlan { isolation: self.isolation, ..rest })
    }

    /// The first steps of the root.
    pub fn steps(&self) -> &[RootStep] {
        self.isolation.as_ref().map_or(&[], |isolation| &isolation.root)
    }

    /// Whether everything but the steps is the same.
    fn fits(&self, plan: &LaunchPlan) -> bool {
        let bare = |isolation: &Option<Isolation>| isolation.as_ref().map(Isolation::without_steps);
        bare(&self.isolation) == bare(&plan.isolation)
            && (self.supervision, &self.groups) == (plan.supervision, &plan.groups)
    }
}

impl LaunchPlan {
    /// How the root is put together.
    pub fn steps(&self) -> &[RootStep] {
        self.isolation.as_ref().map_or(&[], |isolation| &isolation.root)
    }
}

impl Isolation {
    /// Everything but the steps.
    fn without_steps(&self) -> Self {
        let Self { identity, private_network, name_servers, scratch_bytes, scratch_inodes, .. } = *self;
        let (host_name, root) = (self.host_name.clone(), Vec::new());
        Self { identity, private_network, name_servers, host_name, scratch_bytes, scratch_inodes, root }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sandbox::linux::plan::{Exec, Identity, Program, ResourceLimits};

    fn plan(host_name: &str, targets: &[&str]) -> LaunchPlan {
        let directory = |target: &&str| RootStep::Directory { target: PathBuf::from(target) };
        let isolation = Isolation {
            identity: Identity::OwnUser,
            private_network: true,
            name_servers: None,
            host_name: host_name.to_owned(),
            scratch_bytes: 1,
            scratch_inodes: 1,
            root: targets.iter().map(directory).collect(),
        };
        let exec = Exec {
            program: "/bin/true".into(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: "/".into(),
            channel: false,
        };
        LaunchPlan {
            isolation: Some(isolation),
            drop_to: None,
            supervision: Supervision::ProcessNamespace,
            remove_after: Vec::new(),
            groups: None,
            watch: None,
            limits: ResourceLimits {
                data: None,
                processes: None,
                open_files: None,
                file_size: None,
                niceness: None,
            },
            landlock: None,
            seccomp: None,
            deputy: None,
            program: Program::Execute(exec),
            contents: Vec::new(),
        }
    }

    #[test]
    fn a_plan_goes_on_from_what_was_done_of_it_and_is_whole_again() {
        let whole = plan("a", &["/usr", "/etc", "/work/file"]);
        for groundwork in [Groundwork::ahead_of(plan("a", &["/usr", "/etc"])), Groundwork::least(&whole)] {
            let rest = groundwork.rest_of(whole.clone()).expect("it fits");
            assert_eq!(rest.steps().len(), whole.steps().len() - groundwork.steps().len());
            assert_eq!(groundwork.and(rest), Some(whole.clone()));
        }
    }

    #[test]
    fn no_plan_goes_on_from_other_ground() {
        let groundwork = Groundwork::ahead_of(plan("a", &["/usr", "/etc"]));
        for other in
            [plan("b", &["/usr", "/etc"]), plan("a", &["/usr"]), plan("a", &["/etc", "/usr", "/work"])]
        {
            assert_eq!(groundwork.rest_of(other), None);
        }
        assert_eq!(groundwork.clone().and(plan("b", &[])), None);
        let other = LaunchPlan { isolation: None, ..plan("a", &["/usr", "/etc"]) };
        assert_eq!(groundwork.rest_of(other), None);
        let other = LaunchPlan { supervision: Supervision::Subreaper, ..plan("a", &["/usr", "/etc"]) };
        assert_eq!(groundwork.rest_of(other), None);
    }
}
