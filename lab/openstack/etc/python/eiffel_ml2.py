"""ML2 mechanism driver that binds each port at once: there is no agent and no switch."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class Driver(api.MechanismDriver):
    def initialize(self):
        pass

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        segment = context.segments_to_bind[0]
        context.set_binding(segment[api.ID], portbindings.VIF_TYPE_BRIDGE, {portbindings.CAP_PORT_FILTER: False},
                            status=constants.PORT_STATUS_ACTIVE)
