# nixpkgs' MIOpen, tested on a virtual GPU while it is built; a sandbox has no /dev/kfd.
{ kdbforge, rocmPackages }:

(rocmPackages.miopen.override { buildTests = true; }).overrideAttrs (old: {
  doCheck = true;
  nativeCheckInputs = (old.nativeCheckInputs or [ ]) ++ [ kdbforge ];
  miopenTests = ./miopen-tests;
  checkPhase = builtins.readFile ./check-phase.bash;
})
