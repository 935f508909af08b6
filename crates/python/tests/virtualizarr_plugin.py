"""A plugin for VirtualiZarr's own tests: its HDFParser is replaced by the parser of this package."""

import warnings

import virtualizarr.parsers
import virtualizarr.parsers.hdf

import virtualize
from virtualize.virtualizarr import Parser

# Their tests turn no warnings into errors, but some count them.
warnings.simplefilter("ignore", virtualize.VirtualizeWarning)

virtualizarr.parsers.HDFParser = Parser
virtualizarr.parsers.hdf.HDFParser = Parser
