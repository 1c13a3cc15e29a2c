#!/usr/bin/env bash
# Expected: a job of Open MPI without its ULFM extension is over when a process dies, at the latest when that is rank 0:
#   the standard says nothing of what works then, and MPI_Comm_create_group on a communicator with a dead member fails
#   or never returns.
# Seen: under `mpirun --enable-recovery` the ranks that are left make a communicator of themselves with
#   MPI_Comm_create_group, from MPI_COMM_WORLD, which has the dead rank in it, and sum and split by shared memory on it.
#   Again after a second loss, from the communicator made before. mpirun itself ends with 0, although two ranks were
#   killed by a signal.
# Why it matters: ranks that are left can go on in their processes, within milliseconds, with the Open MPI of a
#   distribution; a job script must not take mpirun's exit code for that of the job.
# Source: Open MPI 4.1.4 (Debian 12: openmpi-bin, libopenmpi-dev); seen on 2026-11-29. Needs a C compiler.
#
#   findings/openmpi_without_rank_0.sh      ends with 0 as long as this is so
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/job.c" <<'C'
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* A communicator of all members of `from` but the first. */
static MPI_Comm without_first(MPI_Comm from) {
    MPI_Group all, rest;
    MPI_Comm made;
    const int first = 0;
    MPI_Comm_group(from, &all);
    MPI_Group_excl(all, 1, &first, &rest);
    if (MPI_Comm_create_group(from, rest, 7, &made) != MPI_SUCCESS) _exit(3);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

int main(int argc, char** argv) {
    int world, rank, size, sum, beside;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm comm = MPI_COMM_WORLD;
    for (int loss = 1; loss <= 2; ++loss) {
        MPI_Barrier(comm);
        MPI_Comm_rank(comm, &rank);
        if (rank == 0) raise(SIGKILL);
        sleep(1);
        comm = without_first(comm);
        MPI_Comm shared;
        if (MPI_Allreduce(&world, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS) _exit(4);
        if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared) != MPI_SUCCESS) _exit(5);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        MPI_Comm_size(shared, &beside);
        if (rank == 0) {
            printf("after loss %d: %d ranks, %d on this host, sum of their first numbers %d\n", loss, size, beside, sum);
            fflush(stdout);
        }
        MPI_Barrier(comm);
    }
    _exit(0); /* MPI_Finalize would wait for the dead */
}
C
mpicc -o "$folder/job" "$folder/job.c"
mpirun --version | sed -n 1p
code=0
timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --enable-recovery --oversubscribe \
    --bind-to none --mca pml ob1 --mca btl self,vader -n 5 "$folder/job" >"$folder/out" 2>"$folder/errors" || code=$?
grep '^after' "$folder/out" || true
echo "mpirun ended with $code"
diff <(grep '^after' "$folder/out") - <<'TEXT' || { echo "this has changed"; exit 1; }
after loss 1: 4 ranks, 4 on this host, sum of their first numbers 10
after loss 2: 3 ranks, 3 on this host, sum of their first numbers 9
TEXT
((code == 0)) || { echo "this has changed"; exit 1; }
