"""Nova's fake driver, with a machine of the lab behind each server: each change is a call of the lab's hypervisor."""

import json
import os
import urllib.error
import urllib.request

from nova import exception
from nova.compute import power_state
from nova.virt import fake

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(method, uuid, action="", body=None):
    """Makes a call that returns when the machine is as asked. An error has the hypervisor's words."""
    request = urllib.request.Request(
        "/".join((os.environ["EIFFEL_LAB_HYPERVISOR"], uuid, action)).rstrip("/"), method=method,
        data=None if body is None else json.dumps(body).encode())
    try:
        with direct.open(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise exception.NovaException(error.read().decode())


def addresses(network_info):
    """Returns the addresses of all ports, with the subnets' gateways."""
    found = []
    for vif in network_info or []:
        for subnet in vif["network"]["subnets"]:
            gateway = subnet["gateway"]
            for ip in subnet["ips"]:
                found.append({
                    "MAC": vif["address"],
                    "Prefix": ip["address"] + "/" + str(subnet["cidr"]).partition("/")[2],
                    "Gateway": gateway["address"] or "" if gateway else "",
                })
    return found


class Driver(fake.FakeDriver):
    def init_host(self, host):
        # The machines outlive this process.
        super().init_host(host)
        for uuid, on in json.loads(call("GET", host, "machines")).items():
            state = power_state.RUNNING if on else power_state.SHUTDOWN
            self.instances[uuid] = fake.FakeInstance(uuid, state, uuid)

    def spawn(self, context, instance, image_meta, injected_files, admin_password, allocations, network_info=None,
              block_device_info=None, power_on=True, accel_info=None):
        call("PUT", instance.uuid, body={
            "Host": self._host,
            "ID": instance.uuid,
            "Name": instance.display_name,
            "Addresses": addresses(network_info),
            "ImageID": image_meta.id,
            "AuthorizedKeys": [instance.key_data.strip()] if instance.key_data else [],
            "UserData": instance.user_data,
            "Metadata": dict(instance.metadata),
        })
        super().spawn(context, instance, image_meta, injected_files, admin_password, allocations, network_info,
                      block_device_info, power_on, accel_info)

    def reboot(self, context, instance, network_info, reboot_type, block_device_info=None, bad_volumes_callback=None,
               accel_info=None):
        call("POST", instance.uuid, "reboot" if reboot_type == "SOFT" else "reset")
        super().power_on(context, instance, network_info)

    def power_off(self, instance, timeout=0, retry_interval=0):
        call("POST", instance.uuid, "stop")
        super().power_off(instance)

    def power_on(self, context, instance, network_info, block_device_info=None, accel_info=None):
        call("POST", instance.uuid, "start")
        super().power_on(context, instance, network_info)

    def destroy(self, context, instance, network_info, block_device_info=None, destroy_disks=True,
                destroy_secrets=True):
        call("DELETE", instance.uuid)
        super().destroy(context, instance, network_info)

    def get_console_output(self, context, instance):
        return call("GET", instance.uuid, "console")
