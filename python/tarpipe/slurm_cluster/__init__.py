"""Spark and Ray on Slurm: the modules of the program slurm-cluster, which need nothing but Python 3.8."""
