# For the ebuild of sci-libs/miopen: put miopen-tests into files/, and add to BDEPEND
#   test? ( dev-util/kdbforge )
# cmake_src_test runs on a real GPU where there is one.

src_test() {
	if [[ -c /dev/kfd ]]; then
		check_amdgpu
		cmake_src_test -j1
		return
	fi
	local -x MIOPEN_TOOLCHAIN=${MIOPEN_TOOLCHAIN:-${BUILD_DIR}/lib/libMIOpen.so.1}
	local -x MIOPEN_GTEST=${BUILD_DIR}/bin/miopen_gtest
	local -x MIOPEN_DRIVER=${BUILD_DIR}/bin/MIOpenDriver
	sh "${FILESDIR}/miopen-tests" || die "MIOpen's tests failed on a virtual GPU"
}
