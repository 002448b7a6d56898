"""How long real code takes on a machine, and why: x86 in 64-bit mode, and AArch64 by LLVM's models.

Reading order:

- `errors`: `AnalysisError`;
- `machines`: the machine by its name, measured or modelled (`open_machine`);
- `block`: the region to analyze, its instructions on a machine (`CodeReader`, `Block`), and what they read and write;
- `memory`: which store a load reads from, and what is reached under new addresses (`AddressFollower`);
- `bounds`: all bounds of a block, whose largest is the prediction (`bounds_of`);
- `whatif`: what would make the code faster;
- `simulation`: the same code on the simulated core: cycles, waits, timeline, changes (`Study`);
- `intervals`: how far the data leave a prediction open;
- `loads`: how busy each port is, with the best and with an even distribution;
- `paths`: the critical path of an iteration, and all dependencies from iteration to iteration;
- `explanation`: a prediction with all that follows from it (`PredictionFacts`);
- `function`: the control-flow graph of a function, and its loops;
- `report`: a prediction for people, and for programs;
- `retirement`: at which instruction an interrupt catches a loop;
- `aarch64`: kernels for AArch64, by the models of an installed LLVM;
- `prediction`: one call from code to a prediction (`Tools.predict`).
"""
