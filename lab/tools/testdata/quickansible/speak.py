#!/usr/bin/python3
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.voice import WORDS

AnsibleModule(argument_spec={}).exit_json(words=WORDS)
