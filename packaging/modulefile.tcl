#%Module1.0
# For Environment Modules and Lmod. Installed as PREFIX/share/cohort/modulefiles/cohort/VERSION:
#
#   module use PREFIX/share/cohort/modulefiles
#   module load cohort
#
# The MPI that cohort was built with has to be loaded too.
set prefix [file normalize [file join $ModulesCurrentModulefile .. .. .. .. ..]]

module-whatis "Cohort: data-parallel training over MPI that tolerates slow workers"
conflict cohort
prepend-path PATH $prefix/bin
prepend-path CMAKE_PREFIX_PATH $prefix
# Templates for Slurm: sbatch $COHORT_ROOT/slurm/train.sbatch ...
setenv COHORT_ROOT $prefix/share/cohort
