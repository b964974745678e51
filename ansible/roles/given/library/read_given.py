"""Reads the files of the control node that the compute nodes get."""

import os

from ansible.module_utils import reconfigure_slurm
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: read_given
    short_description: reads the munge key and the configuration files that slurmctld runs with
    options:
      key:
        description: the file of the munge key, which must be text
        required: true
      directory:
        description: the folder of Slurm's configuration
        required: true
"""


def main():
    module = AnsibleModule(
        argument_spec={"key": {"type": "path", "required": True, "no_log": False}, "directory": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    directory = module.params["directory"]
    try:
        good = reconfigure_slurm.accepted(directory)
        with open(module.params["key"], encoding="utf-8", newline="") as file:
            key = file.read()
    except (OSError, UnicodeError) as error:
        module.fail_json(msg="the control node has not been configured completely: %s" % error)
    if "slurm.conf" not in good:
        module.fail_json(msg="the control node has not been configured completely: slurmctld never answered with a configuration of the playbooks")
    files = [{"path": os.path.join(directory, name), "content": good[name], "mode": "0755" if name.endswith(".sh") else "0644"} for name in sorted(good)]
    module.exit_json(changed=False, given={"munge_key": key, "slurm": files})


if __name__ == "__main__":
    main()
