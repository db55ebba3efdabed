# The checkPhase of miopen.nix. $miopenTests is the script miopen-tests beside this file.
runHook preCheck
MIOPEN_TOOLCHAIN=${MIOPEN_TOOLCHAIN:-$PWD/lib/libMIOpen.so.1} \
  MIOPEN_GTEST=$PWD/bin/miopen_gtest \
  MIOPEN_DRIVER=$PWD/bin/MIOpenDriver \
  bash "$miopenTests"
runHook postCheck
