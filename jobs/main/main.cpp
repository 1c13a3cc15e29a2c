#include "jobs/cli/program.hpp"

int main(int argc, char** argv) {
    return cohort::run_program(argc, argv);
}
