"""The copyright file of a package, in the machine-readable form of Debian (copyright-format 1.0).

The kernels' licence is MIOpen's; the compiler links ROCm's device libraries into each.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from kdbforge.package.bundle import Bundle

__all__ = ["copyright_text"]


def copyright_text(bundle: Bundle, library: str, folder: PurePosixPath) -> str:
    """The file's text for databases in `folder` that were built for `library`."""
    return _COPYRIGHT.format(arch=bundle.arch, library=library, folder=str(folder).lstrip("/"))


_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: MIOpen
Source: https://github.com/ROCm/rocm-libraries
Comment:
 These databases hold kernels for {arch}, compiled by kdbforge from the sources
 that {library} has in itself. The compiler links parts of
 the ROCm device libraries into them, and some include headers of HIP and of
 rocRAND. Nothing else is in them.

Files: *
Copyright: 2017-2026, Advanced Micro Devices, Inc.
License: Expat

Files: {folder}/*.kdb
Copyright: 2017-2026, Advanced Micro Devices, Inc.
           2014-2026, Advanced Micro Devices, Inc. (ROCm device libraries)
License: Expat and NCSA

License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 in the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE.

License: NCSA
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 with the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 * Redistributions of source code must retain the above copyright notice, this
   list of conditions and the following disclaimers.
 * Redistributions in binary form must reproduce the above copyright notice,
   this list of conditions and the following disclaimers in the documentation
   and/or other materials provided with the distribution.
 * Neither the names of Advanced Micro Devices, Inc., nor the names of its
   contributors may be used to endorse or promote products derived from this
   Software without specific prior written permission.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 CONTRIBUTORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS WITH THE
 SOFTWARE.
"""
