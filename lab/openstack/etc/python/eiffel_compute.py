"""nova-compute that finds the lab's driver: Nova looks for drivers in its package nova.virt only."""

import os
import sys

from nova.cmd import compute  # first, since it replaces parts of Python's library
import nova.virt

nova.virt.__path__.append(os.path.join(os.path.dirname(__file__), "virt"))
sys.argv[0] = "nova-compute"
sys.exit(compute.main())
