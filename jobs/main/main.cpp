#include "jobs/main/program.hpp"

int main(int argc, char** argv) {
    return cohort::run_program(argc, argv);
}
