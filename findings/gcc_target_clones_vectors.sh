#!/usr/bin/env bash
# Expected: a function of GCC's vector types that has target_clones("default", "avx512f") is as good in its AVX-512 copy as
#   the same function with target("avx512f"): that is what the copies are for.
# Seen: GCC 12.2 takes vectors of 64 bytes apart for the plain x86-64 before it makes the copies. Sums become vectors again;
#   selections by a combination of comparisons do not: the copy for AVX-512 has no comparison of vectors at all, and
#   compares its 16 numbers one by one (a maximum with its place: 34 times as long). With target("avx512f") there are two
#   comparisons of 64 bytes. Nothing is said, unless -Wvector-operation-performance asks for it.
# Why it matters: the copy that runs on the newest processors is the slowest; on those with AVX2 nobody sees it.
# Source: g++-12 12.2.0-14+deb12u1 of Debian 12; seen on 2026-11-28. Only compiles, so any processor will do.
#
#   findings/gcc_target_clones_vectors.sh      ends with 0 as long as this is so
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command -v g++-12 >/dev/null || { echo "needs Debian's g++-12" && exit 2; }
g++-12 --version | sed -n 1p

cat >"$folder/most.cpp" <<'SOURCE'
using Floats [[gnu::vector_size(64)]] = float;
using Words [[gnu::vector_size(64)]] = unsigned;

TARGET void largest(const Floats* from, unsigned count, Floats* value, Words* place) {
    Floats most = Floats{} - __builtin_inff();
    Words where = {};
    for (unsigned i = 0; i < count; ++i) {
        const Floats here = from[i];
        const auto takes = (here > most) | (here != here);
        most = takes ? here : most;
        where = takes ? Words{} + i : where;
    }
    *value = most;
    *place = where;
}
SOURCE

# comparisons ATTRIBUTE: of 64 bytes, and of one number, in the AVX-512 code of `largest`.
comparisons() {
    g++-12 -O3 -std=c++20 -S "-DTARGET=__attribute__(($1))" "$folder/most.cpp" -o "$folder/most.s" 2>/dev/null
    awk '/^[^ \t.].*largest.*:$/ { inside = /avx512f/ || attribute !~ /clones/ } inside' attribute="$1" "$folder/most.s" \
        >"$folder/function.s"
    echo "$(grep -Ec 'vcmp.*%zmm' "$folder/function.s") $(grep -Ec 'v?u?comiss|vcmp[a-z]*ss' "$folder/function.s")"
}
changed=0
read -r whole single <<<"$(comparisons 'target("avx512f")')"
echo "target: $whole comparisons of 64 bytes, $single of one number"
((whole == 2 && single == 0)) || changed=1
read -r whole single <<<"$(comparisons 'target_clones("default", "avx512f")')"
echo "target_clones: $whole comparisons of 64 bytes, $single of one number"
((whole == 0 && single >= 16)) || changed=1
((changed == 0)) || echo "this has changed"
exit "$changed"
